/* SPDX-License-Identifier: Apache-2.0 */
/* threads SECONDS N: N threads, each with its own name and chain. The first thread only waits. */
#include <pthread.h>

#include "chain.h"

CHAIN_GLOBALS;

#define CHAIN_OF(k, depth)                                                                         \
	KEEP long leaf##k(long n)                                                                  \
	{                                                                                          \
		CHAIN_BURN();                                                                      \
		return n;                                                                          \
	}                                                                                          \
	KEEP long thread##k(long n)                                                                \
	{                                                                                          \
		return (n == 1 ? leaf##k(n) : thread##k(n - 1)) + n;                               \
	}                                                                                          \
	KEEP void *run##k(void *tid)                                                               \
	{                                                                                          \
		*(volatile pid_t *)tid = gettid();                                                 \
		return (void *)thread##k(depth);                                                   \
	}
CHAIN_OF(0, 1)
CHAIN_OF(1, 10)
CHAIN_OF(2, 40)
CHAIN_OF(3, 90)

int main(int argc, char **argv)
{
	static void *(*const runs[])(void *) = { run0, run1, run2, run3 };
	static const int depths[] = { 1, 10, 40, 90 };
	static volatile pid_t tids[4];
	long threads = chain_start(argc, argv, 4);
	char list[4096] = "", ids[256] = "", name[16];
	pthread_t thread;

	for (int i = 0; i < threads && i < 4; i++) {
		pthread_create(&thread, NULL, runs[i], (void *)&tids[i]);
		snprintf(name, sizeof(name), "worker-%d", i);
		pthread_setname_np(thread, name);
		while (!tids[i])
			usleep(1000);
		snprintf(list + strlen(list), sizeof(list) - strlen(list),
			 "%s'%s': [['leaf%d', {'name': 'thread%d', 'times': %d}, 'run%d', '@thread']]",
			 i ? ", " : "", name, i, i, depths[i], i);
		snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s'%s': %d", i ? ", " : "", name, tids[i]);
	}
	chain_say("{'chains': [], 'threads': {%s}, 'tids': {%s}}", list, ids);
	for (;;)
		pause();
}
