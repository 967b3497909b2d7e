/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that have some memory, use CPU time, and dump core, one after the other.
 *
 *	core_dumps DIRECTORY
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "attack.h"

enum {
	MEMORY_BYTES = 64 << 20,
};

static volatile unsigned long sink;

static void crash(void)
{
	void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_NAME, "crash");
	memset(memory, 1, MEMORY_BYTES);
	for (int i = 0; i < 20000000; i++)
		sink++;
	abort();
}

int main(int argc, char **argv)
{
	const struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (argc != 2 || chmod(argv[1], 0777) < 0 || chdir(argv[1]) < 0)
		attack_fail("directory");
	attack_contain();
	setrlimit(RLIMIT_CORE, &limit);
	attack_drop_privileges();
	prctl(PR_SET_DUMPABLE, 1); /* a change of the uid resets it */
	attack_say_ready();
	for (;;) {
		int status = 0;
		const pid_t child = fork();

		if (!child)
			crash();
		if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
			attack_fail("child");
	}
}
