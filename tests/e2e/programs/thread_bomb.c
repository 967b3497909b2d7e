/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads that end at once, as fast as it can, in a process for each CPU. */
#include <pthread.h>

#include "attack.h"

enum {
	THREADS = 50, /* at a time in each process */
};

static void *end_at_once(void *name)
{
	prctl(PR_SET_NAME, name);
	return NULL;
}

static void bomb(void)
{
	pthread_t threads[THREADS];

	for (;;) {
		int count = 0;

		while (count < THREADS && !pthread_create(&threads[count], NULL, end_at_once, "bomb thread"))
			count++;
		while (count)
			pthread_join(threads[--count], NULL);
	}
}

int main(void)
{
	attack_contain();
	attack_drop_privileges();
	for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 0; i--)
		if (!fork())
			bomb();
	attack_say_ready();
	for (;;)
		pause();
}
