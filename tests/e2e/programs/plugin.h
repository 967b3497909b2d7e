/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include "chain.h"

/* Some ten milliseconds in the caller, which has no calls. */
static inline long plugin_burn(long n)
{
	for (volatile long i = 0; i < 20000000; i++)
		;
	return n;
}

#endif
