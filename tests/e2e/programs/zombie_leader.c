/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose first thread has ended, so that /proc/PID has no mappings, while its other thread uses CPU
 * time.
 */
#include <pthread.h>

#include "attack.h"

static volatile unsigned long sink;

static void *use_cpu_time(void *name)
{
	prctl(PR_SET_NAME, name);
	usleep(10000);
	attack_say_ready();
	for (;;)
		sink++;
	return NULL;
}

int main(void)
{
	pthread_t thread;

	attack_drop_privileges();
	if (pthread_create(&thread, NULL, use_cpu_time, "orphan"))
		attack_fail("thread");
	pthread_exit(NULL);
}
