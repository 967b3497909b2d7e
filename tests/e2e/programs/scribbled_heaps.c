/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Language runtimes whose heaps are forged all the time, while they are sampled in the middle of their work.
 *
 *	scribbled_heaps PROGRAM ARGUMENT... [, PROGRAM ARGUMENT...]...
 *
 * How this works. Each program runs as a child until it has used a second of CPU time. Then its threads are stopped. The one that has used most gets
 * an endless loop where it is, and goes on; so it does not matter to it any more what is in memory. The others stay stopped. From then on, some words
 * that can be reached from the stack of that thread are forged, and put back some milliseconds later: pointers lead to what contains them, or to
 * something else, and lengths and kinds become any number. Most of the heap stays as it was, so that the profiler gets to what is forged.
 *
 * Example: CPython works on f(), which g() has called. Its frame of f() is followed by itself, then by a string, then by g() again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "attack.h"

enum {
	REGIONS_MAX = 4096,
	ROOTS_MAX = 4096,
	STACK_BYTES = 64 << 10, /* of the stack that are searched for pointers */
	FORGED_MAX = 64,	/* words at a time */
	DEPTH_MAX = 6,		/* pointers that are followed */
	NEAR_WORDS = 32,	/* of an object that count as its fields */
	LOOP = 0xfeeb,		/* jmp to itself (x86-64) */
	CPU_TICKS = 100,	/* of 10 ms, before the threads are stopped */
};

struct region {
	uint64_t start, end;
};

static struct {
	pid_t pid;
	pid_t busy; /* the thread that goes on */
	struct region regions[REGIONS_MAX];
	size_t region_count;
	uint64_t roots[ROOTS_MAX];
	size_t root_count;
} target;

static uint64_t random_below(uint64_t limit)
{
	return ((uint64_t)random() << 31 ^ (uint64_t)random()) % limit;
}

/* Returns the CPU time of a process or thread, in ticks. */
static unsigned long cpu_ticks(const char *path)
{
	unsigned long user = 0, kernel = 0;
	char line[1024];
	FILE *file = fopen(path, "re");

	if (file && fgets(line, sizeof(line), file) && strrchr(line, ')'))
		sscanf(strrchr(line, ')') + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user, &kernel);
	if (file)
		fclose(file);
	return user + kernel;
}

static void start(char **argv)
{
	target.pid = fork();
	if (target.pid == 0) {
		const int null = open("/dev/null", O_RDWR);

		attack_die_with_parent();
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		execvp(argv[0], argv);
		attack_fail(argv[0]);
	}
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", target.pid);
	while (cpu_ticks(path) < CPU_TICKS) {
		if (waitpid(target.pid, NULL, WNOHANG) == target.pid) {
			fprintf(stderr, "%s has ended\n", argv[0]);
			exit(1);
		}
		usleep(10000);
	}
}

static void stop_threads(void)
{
	unsigned long most = 0;
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/task", target.pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		attack_fail(path);
	for (struct dirent *entry; (entry = readdir(tasks));) {
		const pid_t thread = atoi(entry->d_name);

		if (!thread || ptrace(PTRACE_SEIZE, thread, NULL, (void *)(uintptr_t)PTRACE_O_EXITKILL) < 0)
			continue;
		if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0 || waitpid(thread, NULL, __WALL) != thread)
			attack_fail("stop");
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", target.pid, thread);
		const unsigned long ticks = cpu_ticks(path);
		if (ticks > most) {
			most = ticks;
			target.busy = thread;
		}
	}
	closedir(tasks);
	if (!target.busy)
		attack_fail("threads");
}

/* Finds the writable memory, but for what contains `stack` or can be executed. */
static void find_regions(uint64_t stack)
{
	char path[64], line[4096];

	snprintf(path, sizeof(path), "/proc/%d/maps", target.pid);
	FILE *maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps) && target.region_count < REGIONS_MAX) {
		unsigned long start, end;
		char modes[5];

		if (sscanf(line, "%lx-%lx %4s", &start, &end, modes) == 3 && !strcmp(modes, "rw-p") && (stack < start || stack >= end))
			target.regions[target.region_count++] = (struct region){start, end};
	}
	if (!maps || !target.region_count)
		attack_fail("mappings");
	fclose(maps);
}

static const struct region *region_of(uint64_t address)
{
	for (size_t i = 0; i < target.region_count; i++) {
		if (address >= target.regions[i].start && address + sizeof(uint64_t) <= target.regions[i].end)
			return &target.regions[i];
	}
	return NULL;
}

static int transfer(uint64_t address, uint64_t *words, size_t count, int to_target)
{
	const struct iovec here = {words, count * sizeof(*words)}, there = {(void *)(uintptr_t)address, here.iov_len};
	const ssize_t n = to_target ? process_vm_writev(target.pid, &here, 1, &there, 1, 0) : process_vm_readv(target.pid, &here, 1, &there, 1, 0);

	return n == (ssize_t)here.iov_len ? 0 : -1;
}

static void find_roots(uint64_t stack, uint64_t thread_pointer)
{
	static uint64_t words[STACK_BYTES / sizeof(uint64_t)];
	size_t count = sizeof(words) / sizeof(words[0]);

	while (count && transfer(stack & ~7ull, words, count, 0) < 0)
		count /= 2;
	for (size_t i = 0; i < count && target.root_count < ROOTS_MAX - 1; i++) {
		if (region_of(words[i]))
			target.roots[target.root_count++] = words[i];
	}
	if (region_of(thread_pointer))
		target.roots[target.root_count++] = thread_pointer;
	if (!target.root_count)
		attack_fail("pointers on the stack");
}

/* Lets the busy thread go on for ever where it is, and finds what it works on. */
static void spin(void)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, target.busy, NULL, &registers) < 0)
		attack_fail("registers");
	errno = 0;
	const long code = ptrace(PTRACE_PEEKTEXT, target.busy, (void *)(uintptr_t)registers.rip, NULL);
	if (errno || ptrace(PTRACE_POKETEXT, target.busy, (void *)(uintptr_t)registers.rip, (void *)((code & ~0xffffl) | LOOP)) < 0)
		attack_fail("loop");
	/* A system call that was interrupted is not made again. */
	registers.orig_rax = (unsigned long long)-1;
	if (ptrace(PTRACE_SETREGS, target.busy, NULL, &registers) < 0)
		attack_fail("registers");
	find_regions(registers.rsp);
	find_roots(registers.rsp, registers.fs_base);
	if (ptrace(PTRACE_CONT, target.busy, NULL, NULL) < 0)
		attack_fail("go on");
}

/* Returns the address of a word that can be reached from the stack. */
static uint64_t reachable_word(void)
{
	uint64_t at = target.roots[random_below(target.root_count)];

	for (uint64_t depth = random_below(DEPTH_MAX); depth; depth--) {
		uint64_t word;

		if (transfer((at & ~7ull) + 8 * random_below(NEAR_WORDS), &word, 1, 0) == 0 && region_of(word))
			at = word;
	}
	return (at & ~7ull) + 8 * random_below(NEAR_WORDS);
}

static uint64_t forged_word(uint64_t at, uint64_t word)
{
	switch (random_below(6)) {
	case 0:
		return at - 8 * random_below(NEAR_WORDS); /* to what contains it */
	case 1:
		return reachable_word();
	case 2:
		return random_below(256);
	case 3:
		return word ^ 1ull << random_below(64);
	case 4:
		return UINT64_MAX - random_below(256);
	default:
		return random_below(UINT64_MAX);
	}
}

/* Forges some words, and puts them back. */
static void scribble(void)
{
	uint64_t places[FORGED_MAX], words[FORGED_MAX];
	size_t count = 0;

	while (count < FORGED_MAX) {
		const uint64_t at = reachable_word();
		uint64_t forged;

		if (!region_of(at) || transfer(at, &words[count], 1, 0) < 0) {
			usleep(10);
			continue;
		}
		forged = forged_word(at, words[count]);
		if (transfer(at, &forged, 1, 1) == 0)
			places[count++] = at;
	}
	usleep(1000 + (useconds_t)random_below(10000));
	while (count--)
		transfer(places[count], &words[count], 1, 1);
}

static void forge(char **argv, int ready)
{
	int status;

	attack_drop_privileges();
	srandom((unsigned int)getpid());
	start(argv);
	stop_threads();
	spin();
	if (write(ready, "r", 1) != 1)
		attack_fail("ready");
	for (;;) {
		scribble();
		/* No signal reaches it. */
		if (waitpid(target.busy, &status, __WALL | WNOHANG) != target.busy)
			continue;
		if (!WIFSTOPPED(status) || ptrace(PTRACE_CONT, target.busy, NULL, NULL) < 0) {
			fprintf(stderr, "%s has ended: %x\n", argv[0], status);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	int ends[2], started = 0;
	char ready;

	if (pipe(ends) < 0)
		attack_fail("pipe");
	for (int i = 1, first = 1; i <= argc; i++) {
		if (i < argc && strcmp(argv[i], ",") != 0)
			continue;
		argv[i] = NULL;
		if (!fork()) {
			attack_die_with_parent();
			forge(&argv[first], ends[1]);
		}
		first = i + 1;
		started++;
	}
	close(ends[1]);
	while (started-- && read(ends[0], &ready, 1) == 1)
		;
	if (started >= 0)
		attack_fail("a program has ended early");
	attack_say_ready();
	/* The end of one of them is the end of the attack. */
	wait(NULL);
	return 1;
}
