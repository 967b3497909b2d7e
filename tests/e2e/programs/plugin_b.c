/* SPDX-License-Identifier: Apache-2.0 */
/* A library of plugins.c. See plugin_a.c. */
#include "plugin.h"

KEEP long plugin_b(long n);

KEEP long plugin_leaf_b(long n)
{
	volatile char room[4112];

	room[n & 127] = 1;
	return plugin_burn(n) + room[n & 127];
}

KEEP long plugin_b(long n)
{
	volatile char room[80];

	room[n & 63] = 1;
	return plugin_leaf_b(n) + room[n & 63];
}
