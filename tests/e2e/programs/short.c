/* SPDX-License-Identifier: Apache-2.0 */
/* short MS: uses MS milliseconds of CPU time at the end of a chain of five functions, and exits. */
#include <time.h>

#include "chain.h"

CHAIN_GLOBALS;

static long ms;

KEEP void short5(void)
{
	struct timespec now;

	do {
		for (int i = 0; i < 20000; i++)
			chain_sink++;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
}

#define CALLS(name, next)                                                                          \
	KEEP void name(void)                                                                       \
	{                                                                                          \
		next();                                                                            \
		chain_sink++;                                                                      \
	}
CALLS(short4, short5)
CALLS(short3, short4)
CALLS(short2, short3)
CALLS(short1, short2)

int main(int argc, char **argv)
{
	ms = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
	short1();
	return 0;
}
