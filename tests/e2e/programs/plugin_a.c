/* SPDX-License-Identifier: Apache-2.0 */
/* A library of plugins.c. Its frames have other sizes than those of plugin_b.c, and its functions other addresses. */
#include "plugin.h"

KEEP long plugin_leaf_a(long n)
{
	return plugin_burn(n);
}

KEEP long plugin_middle_a(long n)
{
	volatile char room[208];

	room[n & 127] = 1;
	return plugin_leaf_a(n) + room[n & 127];
}

KEEP long plugin_a(long n)
{
	volatile char room[1040];

	room[n & 127] = 1;
	return plugin_middle_a(n) + room[n & 127];
}
