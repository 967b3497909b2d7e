/* SPDX-License-Identifier: Apache-2.0 */
/* contexts SECONDS: a coroutine on a stack of its own, which makecontext(3) has made. */
#include <ucontext.h>

#include "chain.h"

CHAIN_GLOBALS;

static ucontext_t main_context, context;
static char stack[1 << 16];

KEEP long leaf(long n)
{
	CHAIN_BURN();
	return n;
}

KEEP long inner(long n)
{
	return leaf(n) + 1;
}

KEEP void coroutine(void)
{
	chain_sink += (unsigned long)inner(3);
}

int main(int argc, char **argv)
{
	chain_start(argc, argv, 0);
	getcontext(&context);
	context.uc_stack.ss_sp = stack;
	context.uc_stack.ss_size = sizeof(stack);
	context.uc_link = &main_context;
	makecontext(&context, coroutine, 0);
	/* Without debug information, what it returns to has no name. */
	chain_say("{'chains': [['leaf', 'inner', 'coroutine', {'re': 'libc[^+]*\\\\+0x[0-9a-f]+|__start_context'}]]}");
	return swapcontext(&main_context, &context);
}
