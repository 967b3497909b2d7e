/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks as fast as it can: each process has two children, these have two, and so on. At most ALIVE processes
 * exist at a time; one that may not fork ends, so that the bomb goes on.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "attack.h"

enum {
	ALIVE = 100,
	NICE = 10, /* a hundred processes shall leave CPU time for others */
};

static atomic_int *alive;

static void bomb(void)
{
	for (int i = 0; i < 2; i++) {
		if (atomic_fetch_add(alive, 1) >= ALIVE) {
			atomic_fetch_sub(alive, 1);
			break;
		}
		const pid_t child = fork();
		if (!child) {
			bomb();
			atomic_fetch_sub(alive, 1);
			_exit(0);
		}
		if (child < 0)
			atomic_fetch_sub(alive, 1);
	}
}

int main(void)
{
	/* If something goes wrong with the count, the machine shall go on. */
	const struct rlimit limit = {2 * ALIVE, 2 * ALIVE};

	alive = mmap(NULL, sizeof(*alive), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (alive == MAP_FAILED)
		attack_fail("counter");
	attack_contain();
	setrlimit(RLIMIT_NPROC, &limit);
	setpriority(PRIO_PROCESS, 0, NICE);
	attack_drop_privileges();
	attack_say_ready();
	for (;;) {
		bomb();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
