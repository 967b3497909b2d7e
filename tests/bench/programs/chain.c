/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload of the benchmarks: THREADS threads, one per CPU, each at the end of a chain of calls
 * that is DEPTH user frames long, from its leaf to libc's start of the thread.
 *
 *   chain [-t THREADS] [-d DEPTH] [-s] [-f | -v] [-m OBJECT...]
 *
 *   -s  the leaf reads from /dev/zero instead of calculating
 *   -f  always the same chain. Without it each descent, some milliseconds after the last, passes
 *       through other functions near the leaf.
 *   -v  each descent passes through other functions all the way, so that hardly two stacks are alike
 *   -m  shared objects (hop.c) through which the chain leads, one frame each. Each descent starts
 *       with another one. They replace the functions of this file. Must be the last option.
 *
 * It prints "ready" once all threads run, then answers each line on stdin with a line of JSON,
 * {"turns": of all threads together, "ns": clock, "cpu_ns": their CPU time}. It ends when stdin is
 * closed, so that no process is left over. A turn is one pass of the leaf's loop: some hundred nanoseconds of
 * arithmetic, or one read.
 */
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "hop.h"

enum {
	THREADS_MAX = 1024,
	FUNCTIONS = 128,
	/* Two frames of libc, thread_main and the leaf. With -s, libc's read() is one more. */
	FRAMES_BESIDE_CHAIN = 4,
	VARIED = 3, /* functions near the leaf that differ in each descent */
	TURNS = 8192,
	READS = 2048,
	ROUNDS_A_TURN = 200,
};

struct worker {
	struct chain chain;
	pthread_t thread;
	int cpu;
	_Alignas(64) _Atomic unsigned long turns;
};

static struct worker *workers;
static unsigned int threads = 2, depth = 34;
static bool syscalls, fixed, scattered, objects;
static hop_function *const volatile *functions;
static unsigned int function_count = FUNCTIONS;
static atomic_uint running;
static int zero_fd;
static volatile unsigned long sink;

static __attribute__((noinline, noclone)) unsigned long leaf_calculate(struct chain *chain)
{
	struct worker *w = (struct worker *)chain;
	unsigned long x = w->chain.descent | 1;

	for (int turn = 0; turn < TURNS; turn++) {
		for (int i = 0; i < ROUNDS_A_TURN; i++)
			x = x * 6364136223846793005ul + 1442695040888963407ul;
		atomic_fetch_add_explicit(&w->turns, 1, memory_order_relaxed);
	}
	return x;
}

static __attribute__((noinline, noclone)) unsigned long leaf_read(struct chain *chain)
{
	struct worker *w = (struct worker *)chain;
	unsigned long x = 0;
	char buffer[64];

	for (int turn = 0; turn < READS; turn++) {
		if (read(zero_fd, buffer, sizeof(buffer)) < 0)
			err(1, "read");
		x += (unsigned char)buffer[turn % 64];
		atomic_fetch_add_explicit(&w->turns, 1, memory_order_relaxed);
	}
	return x;
}

/*
 * FUNCTIONS functions that differ in the size of their frames and in the registers that they save,
 * 256 bytes of text apart, so that a walk meets as many pages of tables as in a program of some
 * size.
 */
#define FUNCTION(n)                                                                                \
	static __attribute__((noinline, noclone, aligned(256))) unsigned long function_##n(        \
	    struct chain *chain, unsigned int left)                                                \
	{                                                                                          \
		volatile unsigned long local[1 + (n)*7 % 13];                                      \
                                                                                                   \
		local[0] = left;                                                                   \
		unsigned long x = chain_next(chain, left);                                         \
		return (n) % 3 ? x + local[0] + left : x + local[0];                               \
	}
#define FUNCTIONS_8(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
/* The numbers of the 128 functions are octal. */
#define FUNCTIONS_64(X, n)                                                                         \
	FUNCTIONS_8(X, n##0)                                                                       \
	FUNCTIONS_8(X, n##1)                                                                       \
	FUNCTIONS_8(X, n##2)                                                                       \
	FUNCTIONS_8(X, n##3)                                                                       \
	FUNCTIONS_8(X, n##4)                                                                       \
	FUNCTIONS_8(X, n##5)                                                                       \
	FUNCTIONS_8(X, n##6)                                                                       \
	FUNCTIONS_8(X, n##7)
FUNCTIONS_64(FUNCTION, 0)
FUNCTIONS_64(FUNCTION, 01)
#define FUNCTION_NAME(n) function_##n,
static hop_function *const volatile own[] = {FUNCTIONS_64(FUNCTION_NAME, 0)
						 FUNCTIONS_64(FUNCTION_NAME, 01)};
_Static_assert(sizeof(own) / sizeof(own[0]) == FUNCTIONS, "as many as told");

static void *thread_main(void *argument)
{
	struct worker *w = argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	running++;
	for (;;) {
		w->chain.descent++;
		sink += chain_next(&w->chain, depth - FRAMES_BESIDE_CHAIN - syscalls);
	}
	return NULL;
}

static void start_threads(void)
{
	const size_t stack = (size_t)depth * 512 + (1 << 16);
	pthread_attr_t attributes;
	cpu_set_t allowed;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		err(1, "sched_getaffinity");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack);
	workers = aligned_alloc(64, threads * sizeof(*workers));
	if (!workers)
		err(1, "memory");
	for (unsigned int i = 0; i < threads; i++) {
		struct worker *w = &workers[i];

		do
			cpu = (cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(cpu, &allowed));
		*w = (struct worker){.cpu = cpu,
				     .chain = {.leaf = syscalls ? leaf_read : leaf_calculate,
					       .functions = functions,
					       .count = function_count,
					       .first = i * 11,
					       .scattered = scattered,
					       .varied = fixed	   ? 0
							 : objects ? depth
								   : VARIED}};
		if (pthread_create(&w->thread, &attributes, thread_main, w))
			errx(1, "pthread_create");
	}
	while (running < threads)
		usleep(1000);
}

static void load_objects(char **paths, unsigned int count)
{
	hop_function **table = calloc(count, sizeof(*table));

	if (!count || !table)
		errx(2, "-m: no objects");
	for (unsigned int i = 0; i < count; i++) {
		void *object = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);

		table[i] = object ? (hop_function *)dlsym(object, "hop") : NULL;
		if (!table[i])
			errx(1, "%s", dlerror());
	}
	functions = table;
	function_count = count;
}

static long long in_ns(const struct timespec *t)
{
	return (long long)t->tv_sec * 1000000000 + t->tv_nsec;
}

static void answer(void)
{
	unsigned long turns = 0;
	struct timespec now, cpu;

	for (unsigned int i = 0; i < threads; i++)
		turns += workers[i].turns;
	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("{\"turns\": %lu, \"ns\": %lld, \"cpu_ns\": %lld}\n", turns, in_ns(&now),
	       in_ns(&cpu));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int option; (option = getopt(argc, argv, "t:d:sfvm")) != -1;) {
		switch (option) {
		case 't':
			threads = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'd':
			depth = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 's':
			syscalls = true;
			break;
		case 'f':
			fixed = true;
			break;
		case 'v':
			scattered = true;
			break;
		case 'm':
			objects = true;
			break;
		default:
			return 2;
		}
	}
	if (!threads || threads > THREADS_MAX || depth <= FRAMES_BESIDE_CHAIN + 1 || depth > 10000)
		errx(2, "threads or depth out of range");
	functions = own;
	if (objects)
		load_objects(argv + optind, (unsigned int)(argc - optind));
	zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (zero_fd < 0)
		err(1, "/dev/zero");
	start_threads();
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		answer();
	_exit(0);
}
