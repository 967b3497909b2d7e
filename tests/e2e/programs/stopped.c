/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that map code, use CPU time in it for some milliseconds, and do not run for a while then: one
 * is stopped by a signal, the other is in a frozen cgroup.
 *
 *	stopped CGROUP
 *
 * CGROUP is a directory of cgroup v2. A stopped process lets nobody wait: its mappings can be read.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "attack.h"

enum {
	RUN_US = 5000,
	STOP_US = 50000,
};

static volatile unsigned long sink;

static void use_cpu_time(const char *name, int file)
{
	prctl(PR_SET_NAME, name);
	attack_drop_privileges();
	for (;;) {
		void *page = mmap(NULL, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

		for (int i = 0; i < 1000000; i++)
			sink++;
		munmap(page, ATTACK_PAGE);
	}
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	const int fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		attack_fail(path);
	close(fd);
}

int main(int argc, char **argv)
{
	const int file = open("/proc/self/exe", O_RDONLY);
	char text[32];

	attack_die_with_parent();
	if (argc != 2 || file < 0)
		attack_fail("cgroup");
	const pid_t stopped = fork();
	if (!stopped)
		use_cpu_time("stopped", file);
	const pid_t frozen = fork();
	if (!frozen)
		use_cpu_time("frozen", file);
	snprintf(text, sizeof(text), "%d", frozen);
	write_file(argv[1], "cgroup.procs", text);
	attack_say_ready();
	for (;;) {
		usleep(RUN_US);
		kill(stopped, SIGSTOP);
		write_file(argv[1], "cgroup.freeze", "1");
		usleep(STOP_US);
		kill(stopped, SIGCONT);
		write_file(argv[1], "cgroup.freeze", "0");
	}
}
