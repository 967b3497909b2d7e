/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals SECONDS MODE: uses CPU time in a signal handler. MODE selects where the signal arrives:
 * 0: at any instruction of the interrupted leaf.
 * 1: at the first instruction of a function. Its address must not be taken for a return address:
 *    address - 1 is in another function.
 * 2: as 0, but the handler runs on an alternate stack.
 * 3: as 0, and a second signal arrives inside the handler of the first.
 */
#include <sys/time.h>

#include "chain.h"

CHAIN_GLOBALS;
void first_instruction(void);

KEEP void handler_leaf(void)
{
	CHAIN_BURN();
}

KEEP void handler(int signal)
{
	handler_leaf();
	chain_sink += (unsigned long)signal;
}

KEEP void outer_handler(int signal)
{
	raise(SIGUSR2);
	chain_sink += (unsigned long)signal;
}

static long mode;

KEEP long interrupted(void)
{
	if (mode == 1)
		first_instruction();
	CHAIN_BURN();
	return 0;
}

KEEP long deep(long n)
{
	return (n == 1 ? interrupted() : deep(n - 1)) + n;
}

int main(int argc, char **argv)
{
	struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
	struct sigaction action = { .sa_handler = handler };
	stack_t stack = { .ss_size = 1 << 16 };

	mode = chain_start(argc, argv, 0);
	sigaction(SIGUSR2, &action, NULL);
	if (mode == 2) {
		stack.ss_sp = malloc(stack.ss_size);
		sigaltstack(&stack, NULL);
		action.sa_flags = SA_ONSTACK;
	}
	if (mode == 3)
		action.sa_handler = outer_handler;
	sigaction(mode == 1 ? SIGILL : SIGVTALRM, &action, NULL);
	/* raise() is one frame or, where glibc calls pthread_kill, three */
	chain_say("{'chains': [['handler_leaf', 'handler', {'re': '.*'}, %s%s'interrupted', {'name': 'deep', 'times': 20}, 'main', " CHAIN_START "]]}",
		  mode == 3 ? "{'re': '.*', 'min': 1, 'max': 3}, 'outer_handler', {'re': '.*'}, " : "",
		  mode == 1 ? "'first_instruction', " : "");
	if (mode != 1)
		setitimer(ITIMER_VIRTUAL, &soon, NULL);
	return (int)deep(20);
}
