/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tailcalls SECONDS: built with -foptimize-sibling-calls. The functions replaced_* end in a jump,
 * so they are not on the stack. The frames of ends_in_call have a return address one byte after the
 * end of their function.
 */
#include "chain.h"

CHAIN_GLOBALS;

KEEP long leaf(long n)
{
	CHAIN_BURN();
	return n;
}

__attribute__((noreturn)) KEEP void never_returns(long n)
{
	chain_sink += (unsigned long)leaf(n);
	abort();
}

KEEP long ends_in_call(long n)
{
	if (n < 0)
		return leaf(n) + 1;
	never_returns(n);
}

/* The function directly after it. A lookup of the return address itself would find this name. */
KEEP long innocent(long n)
{
	return n * 7;
}

KEEP long replaced_inner(long n)
{
	return ends_in_call(n * 2);
}

KEEP long stays_inner(long n)
{
	return replaced_inner(n) + innocent(n);
}

KEEP long replaced_twice(long n)
{
	return stays_inner(n + 2);
}

KEEP long replaced_outer(long n)
{
	return replaced_twice(n + 1);
}

KEEP long stays_outer(long n)
{
	return replaced_outer(n) + n;
}

int main(int argc, char **argv)
{
	long n = chain_start(argc, argv, 3);

	chain_say("{'chains': [['leaf', 'never_returns', 'ends_in_call', 'stays_inner', 'stays_outer', 'main', '@start']]}");
	return (int)stays_outer(n) + 1;
}
