/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plt SECONDS: makes only short calls through .plt, so that many samples are taken in the stubs and
 * in the few instructions around them. With LD_BIND_NOT=1 every call goes through ld.so's resolver,
 * whose trampoline keeps its CFA in rbx.
 */
#include "chain.h"

CHAIN_GLOBALS;
long plt_one(long n);
long plt_two(long n);

KEEP long plt_caller(long n)
{
	for (;;)
		n = plt_two(plt_one(n));
	return n;
}

KEEP long plt_outer(long n)
{
	return plt_caller(n) + 1;
}

int main(int argc, char **argv)
{
	chain_start(argc, argv, 0);
	if (getenv("LD_BIND_NOT"))
		chain_say("{'chains': [[{'re': '.*', 'min': 0, 'max': 9}, 'plt_caller', 'plt_outer', 'main', '@start']],"
			  " 'need': {'(ld-linux.*|_dl_.*|do_lookup_x)': 0.5}}");
	else
		chain_say("{'chains': [[{'re': '(plt_one|plt_two)(@plt)?|plt(_cet)?\\\\+0x[0-9a-f]+', 'min': 0}, 'plt_caller', 'plt_outer', 'main', '@start']],"
			  /* They have two instructions, and which one is interrupted depends on the processor: 4 to 20 % were seen. */
			  " 'need': {'plt_one|plt_two': 0.01}}");
	return (int)plt_outer(1);
}
