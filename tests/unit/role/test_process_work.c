/* SPDX-License-Identifier: Apache-2.0 */
/* Work that reads memory, and what becomes of it when a read does not come back. The memory is that
 * of this process, and the test decides how a read goes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process_memory.h"
#include "common/raw_syscall.h"
#include "common/time_units.h"
#include "role/process_work.h"

enum {
	BYTES = 40000 /* several pieces */
};

static struct process_work work;
static struct work_page page;
static uint8_t content[BYTES];
static int memory, ends[2]; /* ends of a pipe */
static unsigned int others; /* threads of the library for tests */

static pid_t thread(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static unsigned int threads(void)
{
	struct stat status;

	cr_assert_eq(stat("/proc/self/task", &status), 0);
	return (unsigned int)status.st_nlink - 2;
}

static void setup(void)
{
	const struct work_subject subject = {.tgid = 42, .tenant = tenant_of(1000, 0)};

	process_work_init(&work, &page);
	work_begin(&page, &subject);
	memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(memory, 0);
	cr_assert_eq(pipe(ends), 0);
	others = threads() - 1;
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 / 5);
}

TestSuite(process_work, .init = setup, .timeout = 60);

/* --- how a read goes --- */

static enum {
	READS_AT_ONCE,
	WAITS,	/* until come_back() */
	SLEEPS, /* for a part of what all reads may take */
} reader;

static unsigned int came_back;

ssize_t __real_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer,
				   size_t length);
ssize_t __wrap_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer,
				   size_t length);
ssize_t __wrap_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer, size_t length)
{
	const struct timespec pause = {.tv_nsec = 40 * NS_PER_MS};
	char byte;

	if (reader == SLEEPS)
		nanosleep(&pause, NULL);
	if (reader != WAITS)
		return __real_process_memory_read(fd, pid, address, buffer, length);
	/* From here on this thread may not be the role any more. */
	RAW_SYSCALL(SYS_read, ends[0], (long)&byte, 1);
	const ssize_t n = __real_process_memory_read(fd, pid, address, buffer, length);
	__atomic_fetch_add(&came_back, 1, __ATOMIC_SEQ_CST);
	return n;
}

/* Lets one of the reads that wait come back, and waits until it has. */
static void come_back(void)
{
	const unsigned int before = __atomic_load_n(&came_back, __ATOMIC_SEQ_CST);
	const struct timespec pause = {.tv_nsec = NS_PER_MS};

	cr_assert_eq(write(ends[1], "", 1), 1);
	while (__atomic_load_n(&came_back, __ATOMIC_SEQ_CST) == before)
		nanosleep(&pause, NULL);
	/* It has only to write down that it has nothing to do. */
	nanosleep(&(struct timespec){.tv_nsec = 20 * NS_PER_MS}, NULL);
}

/* --- work --- */

struct job {
	int fd;
	size_t wanted, piece;
	/* The result. */
	pid_t thread;
	unsigned int reads;
	ssize_t last; /* what the last read returned */
	uint8_t found[BYTES];
};

static struct job job;

static void copy(void *context)
{
	struct job *j = context;
	size_t done = 0;

	j->thread = thread();
	while (done < j->wanted) {
		const size_t left = j->wanted - done;

		j->last =
		    process_work_read(&work, j->fd, getpid(), (uint64_t)(uintptr_t)content + done,
				      j->found + done, left < j->piece ? left : j->piece);
		j->reads++;
		if (j->last <= 0)
			return;
		done += (size_t)j->last;
	}
}

static int do_copy(int fd, size_t wanted)
{
	job = (struct job){.fd = fd, .wanted = wanted, .piece = BYTES};
	return process_work_run(&work, copy, &job);
}

Test(process_work, is_done_by_the_thread_of_the_role)
{
	cr_assert_eq(do_copy(memory, BYTES), 0);
	cr_expect_eq(job.thread, getpid());
	cr_expect_arr_eq(job.found, content, BYTES);
	cr_expect_gt(job.reads, 1);
	cr_expect_eq(threads() - others, 2, "another one watches");
	cr_assert_eq(do_copy(memory, 10), 0);
	cr_expect_eq(threads() - others, 2, "it stays");
}

Test(process_work, without_a_descriptor_the_process_is_read)
{
	cr_assert_eq(do_copy(-1, BYTES), 0);
	cr_expect_arr_eq(job.found, content, BYTES);
}

Test(process_work, may_be_done_unwatched)
{
	job = (struct job){.fd = memory, .wanted = 100, .piece = BYTES};
	cr_assert_eq(process_work_run(NULL, copy, &job), 0);
	cr_expect_eq(threads() - others, 1);
	cr_expect_arr_eq(job.found, content, 100);
}

Test(process_work, another_thread_goes_on_if_a_read_does_not_come_back)
{
	const uint8_t nothing[BYTES] = {0};
	const int before = 4711;

	reader = WAITS;
	cr_expect_eq(do_copy(memory, BYTES), -ETIMEDOUT);
	cr_expect_neq(thread(), getpid());
	cr_expect_eq(job.thread, getpid());
	cr_expect_eq(before, 4711, "this is the same stack");
	cr_expect(work_is_quarantined(&page, &page.subject));
	cr_expect_eq(job.reads, 0, "it did not come back");
	reader = READS_AT_ONCE;
	cr_assert_eq(do_copy(memory, BYTES), 0);
	cr_expect_eq(job.thread, thread());
	cr_expect_arr_eq(job.found, content, BYTES);
	job = (struct job){0};
	come_back();
	cr_expect_eq(job.reads, 0, "who was given up touches nothing");
	cr_expect_arr_eq(job.found, nothing, BYTES);
}

static uint64_t left_alone_until_ns(void)
{
	cr_assert(work_is_quarantined(&page, &page.subject));
	return page.quarantine.entries[0].until_ns;
}

/* A tenth of ten seconds. */
Test(process_work, who_was_only_slow_is_left_alone_for_a_shorter_time)
{
	reader = WAITS;
	cr_assert_eq(do_copy(memory, BYTES), -ETIMEDOUT);
	process_work_look(&work);
	cr_expect_gt(left_alone_until_ns(), clock_monotonic_ns() + NS_PER_S);
	come_back();
	process_work_look(&work);
	const uint64_t until_ns = left_alone_until_ns();
	cr_expect_leq(until_ns, clock_monotonic_ns() + NS_PER_S);
	process_work_look(&work);
	cr_expect_eq(left_alone_until_ns(), until_ns, "once");
}

/* The errno of all threads is the same. */
Test(process_work, who_comes_back_leaves_errno_alone)
{
	reader = WAITS;
	job = (struct job){.fd = 12345, .wanted = 1, .piece = 1};
	cr_expect_eq(process_work_run(&work, copy, &job), -ETIMEDOUT);
	errno = EXDEV;
	come_back();
	cr_expect_eq(errno, EXDEV);
}

Test(process_work, who_has_come_back_watches_again)
{
	for (int i = 0; i < 20; i++) {
		const pid_t role = thread();

		reader = WAITS;
		cr_assert_eq(do_copy(memory, BYTES), -ETIMEDOUT);
		cr_assert_neq(thread(), role);
		come_back();
		reader = READS_AT_ONCE;
		cr_assert_eq(do_copy(memory, BYTES), 0);
		cr_assert_arr_eq(job.found, content, BYTES);
		cr_assert_eq(threads() - others, 2);
	}
}

/* The role itself is the last one that can hang. */
Test(process_work, if_too_many_do_not_come_back_nobody_watches)
{
	for (int i = 1; i < PROCESS_WORK_THREADS_MAX; i++) {
		reader = WAITS;
		cr_assert_eq(do_copy(memory, BYTES), -ETIMEDOUT, "%d", i);
		reader = READS_AT_ONCE;
		cr_assert_eq(do_copy(memory, BYTES), 0);
	}
	cr_expect_eq(threads() - others, PROCESS_WORK_THREADS_MAX);
	const pid_t role = thread();
	reader = SLEEPS;
	cr_expect_eq(do_copy(memory, BYTES), 0, "it is done all the same");
	cr_expect_arr_eq(job.found, content, BYTES);
	cr_expect_eq(thread(), role);
	come_back();
	reader = WAITS;
	cr_expect_eq(do_copy(memory, BYTES), -ETIMEDOUT, "somebody watches again");
}

Test(process_work, many_short_waits_end_the_work)
{
	reader = SLEEPS;
	job = (struct job){.fd = memory, .wanted = BYTES, .piece = 10};
	cr_assert_eq(process_work_run(&work, copy, &job), 0);
	cr_expect_eq(job.last, -ETIMEDOUT);
	cr_expect_leq(job.reads, 4);
	cr_expect_not(work_is_quarantined(&page, &page.subject));
	reader = READS_AT_ONCE;
	cr_assert_eq(do_copy(memory, BYTES), 0);
	cr_expect_arr_eq(job.found, content, BYTES, "the next work has its own time");
	cr_expect_eq(thread(), getpid());
}

static void compute(void *context)
{
	const uint64_t end_ns = clock_monotonic_ns() + 300 * NS_PER_MS;
	uint64_t *rounds = context;

	while (clock_monotonic_ns() < end_ns)
		++*rounds;
}

Test(process_work, what_does_not_read_is_not_given_up)
{
	uint64_t rounds = 0;

	cr_expect_eq(process_work_run(&work, compute, &rounds), 0);
	cr_expect_gt(rounds, 0);
	cr_expect_not(work_is_quarantined(&page, &page.subject));
	cr_expect_eq(thread(), getpid());
}

/* Between pieces of work, the thread that watches sleeps. */
Test(process_work, work_is_watched_after_a_pause)
{
	for (int i = 0; i < 3; i++) {
		reader = READS_AT_ONCE;
		cr_assert_eq(do_copy(memory, 10), 0);
		nanosleep(&(struct timespec){.tv_nsec = 50 * NS_PER_MS}, NULL);
		reader = WAITS;
		cr_assert_eq(do_copy(memory, 10), -ETIMEDOUT);
		come_back();
	}
}
