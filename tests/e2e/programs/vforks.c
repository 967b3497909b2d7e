/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vforks SECONDS MS: starts children with vfork(2), one after the other. Each runs in the memory
 * and on the stack of its parent, and uses MS milliseconds of CPU time. MS 0: one child that runs
 * until the end.
 */
#include <sys/wait.h>
#include <time.h>

#include "chain.h"

CHAIN_GLOBALS;

static long burn_ms;

KEEP void child_leaf(void)
{
	struct timespec now;
	long end;

	if (!burn_ms)
		CHAIN_BURN();
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + burn_ms;
	do {
		for (int i = 0; i < 100000; i++)
			chain_sink++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end);
}

KEEP void child_work(long n)
{
	if (n > 1)
		child_work(n - 1);
	else
		child_leaf();
	chain_sink++;
}

KEEP long vforker(void)
{
	pid_t pid = vfork();

	if (!pid) {
		if (!burn_ms)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_work(5);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return pid;
}

int main(int argc, char **argv)
{
	burn_ms = chain_start(argc, argv, 0);
	/* Between the children, the parent calls vfork, waitpid and clock_gettime. */
	chain_say("{'chains': [['child_leaf', {'name': 'child_work', 'times': 5}, 'vforker', 'main', '@start'],"
		  "[{'re': '.*clock_gettime.*|\\\\[?vdso.*', 'min': 1, 'max': 3}, 'child_leaf', {'name': 'child_work', 'times': 5}, 'vforker', 'main', '@start'],"
		  "[{'re': '(__GI_)?(__)?(libc_)?(vfork|waitpid|wait4|_exit)|libc.so.6.*', 'min': 0, 'max': 2}, 'vforker', 'main', '@start']],"
		  " 'need': {'child_leaf': 0.7}}");
	do
		chain_sink += (unsigned long)vforker();
	while (burn_ms);
	return 0;
}
