/* SPDX-License-Identifier: Apache-2.0 */
/* wander SECONDS FRAMES: a stack of exactly FRAMES frames that changes every few microseconds. */
#include "chain.h"

CHAIN_GLOBALS;

static unsigned long state = 88172645463325252ul;

static unsigned long next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

KEEP long leaf(long n)
{
	for (int i = 0; i < 1000; i++)
		chain_sink++;
	return n;
}

KEEP long left(long n, unsigned long way);

KEEP long right(long n, unsigned long way)
{
	if (n == 1)
		return leaf(n) + 2;
	return (way & 1 ? left(n - 1, way >> 1 | way << 63) : right(n - 1, way >> 1 | way << 63)) + n;
}

KEEP long left(long n, unsigned long way)
{
	if (n == 1)
		return leaf(n) + 1;
	return (way & 1 ? left(n - 1, way >> 1 | way << 63) : right(n - 1, way >> 1 | way << 63)) - n;
}

int main(int argc, char **argv)
{
	/* leaf, main, two of libc, _start */
	long depth = chain_start(argc, argv, 70) - 5, sum = 0;

	chain_say("{'chains': [['leaf', {'re': 'left|right', 'min': %ld, 'max': %ld}, 'main', '@start'], "
		  "[{'re': 'left|right', 'min': 0, 'max': %ld}, 'main', '@start']]}",
		  depth, depth, depth);
	while (!chain_stop)
		sum += left(depth, next());
	return (int)sum;
}
