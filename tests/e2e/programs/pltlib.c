/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

KEEP long plt_one(long n)
{
	return n * 3;
}

KEEP long plt_two(long n)
{
	return n + 5;
}
