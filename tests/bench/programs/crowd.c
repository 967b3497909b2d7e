/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts processes, each a program of its own (exec) that sleeps most of the time:
 *
 *   crowd COUNT      they live until stdin is closed; each is awake for some 50 us about once per
 *                    second
 *   crowd -c COUNT   they start and end, as many at a time as there are CPUs; each runs for 100 us
 *   crowd -n         none: prints the time (CLOCK_MONOTONIC, ns)
 *
 * It prints "ready" when they run, or "done" when all have ended, and a JSON number with the time.
 */
#include <err.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile unsigned long sink;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static __attribute__((noinline)) void burn(long long ns)
{
	const long long end = now_ns() + ns;

	do
		for (int i = 0; i < 1000; i++)
			sink += i;
	while (now_ns() < end);
}

/* Sleeps for a different time in each turn, so that the processes are not in step. */
static void live(void)
{
	unsigned int seed = (unsigned int)getpid();

	for (;;) {
		usleep(500000 + (useconds_t)rand_r(&seed) % 1000000);
		burn(50000);
	}
}

static pid_t spawn(const char *how)
{
	char *const argv[] = {(char *)"crowd", (char *)how, NULL};
	pid_t pid;
	int error = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);

	if (error)
		errx(1, "posix_spawn: %s", strerror(error));
	return pid;
}

static void come_and_go(unsigned long count)
{
	const long long begin = now_ns();
	unsigned long lanes = (unsigned long)sysconf(_SC_NPROCESSORS_ONLN), started = 0;

	while (started < lanes && started < count) {
		spawn("-b");
		started++;
	}
	while (wait(NULL) > 0) {
		if (started < count) {
			spawn("-b");
			started++;
		}
	}
	printf("done {\"processes\": %lu, \"ns\": %lld}\n", count, now_ns() - begin);
}

static void gather(unsigned long count)
{
	char byte;

	for (unsigned long i = 0; i < count; i++)
		spawn("-l");
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc == 2 && !strcmp(argv[1], "-l"))
		live();
	if (argc == 2 && !strcmp(argv[1], "-b")) {
		burn(100000);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "-n")) {
		printf("%lld\n", now_ns());
		return 0;
	}
	/* The processes are a group of their own, so that all of them can be killed at once. */
	setpgid(0, 0);
	if (argc == 3 && !strcmp(argv[1], "-c"))
		come_and_go(strtoul(argv[2], NULL, 10));
	else if (argc == 2)
		gather(strtoul(argv[1], NULL, 10));
	else
		return 2;
	return 0;
}
