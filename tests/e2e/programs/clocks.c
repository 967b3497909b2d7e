/* SPDX-License-Identifier: Apache-2.0 */
/* clocks SECONDS MODE: calls a clock function. MODE 0: clock_gettime() in the vDSO; 1: time() in the vsyscall page. */
#include <time.h>

#include "chain.h"

CHAIN_GLOBALS;

KEEP long asks(long mode)
{
	long (*vsyscall_time)(long *) = (long (*)(long *))0xffffffffff600400;
	struct timespec now;

	if (mode)
		for (;;)
			chain_sink += (unsigned long)vsyscall_time(NULL);
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		chain_sink += (unsigned long)now.tv_nsec;
	}
	return 0;
}

KEEP long asks_outer(long mode)
{
	return asks(mode) + 1;
}

int main(int argc, char **argv)
{
	long mode = chain_start(argc, argv, 0);

	chain_say("{'chains': [[{'re': '%s', 'min': 0, 'max': %d}, 'asks', 'asks_outer', 'main', '@start']], 'need': {'%s': 0.2}}",
		  mode ? ".*" : ".*(vdso|clock_gettime|libc).*", mode ? 1 : 4, mode ? "(?!asks|main|_start).*vsyscall.*" : ".*vdso.*");
	return (int)asks_outer(mode);
}
