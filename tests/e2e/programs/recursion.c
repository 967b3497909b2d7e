/* SPDX-License-Identifier: Apache-2.0 */
/* recursion SECONDS FRAMES: a stack of exactly FRAMES frames, including `_start` and two of libc. */
#include "chain.h"

CHAIN_GLOBALS;

KEEP long leaf(long n)
{
	CHAIN_BURN();
	return n;
}

KEEP long descend(long n)
{
	if (n == 1)
		return leaf(n) + 1;
	return descend(n - 1) + n;
}

int main(int argc, char **argv)
{
	/* leaf, main, two of libc, _start */
	long depth = chain_start(argc, argv, 28) - 5;

	chain_say("{'chains': [['leaf', {'name': 'descend', 'times': %ld}, 'main', '@start']]}", depth);
	return (int)descend(depth);
}
