/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that works on the role's data and reads memory. Here that is the memory of this
 * process, and the test decides how a read goes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/time_units.h"
#include "role/process_work.h"

enum {
	BYTES = 40000 /* several pieces */
};

static struct loop loop;
static struct process_work work;
static struct work_page page;
static uint8_t content[BYTES];
static int memory;
static pid_t own_pid;

static void setup(void)
{
	const struct work_subject subject = {.tgid = 42, .tenant = tenant_of(1000, 0)};

	cr_assert_eq(loop_init(&loop), 0);
	process_work_init(&work, &loop, "unit", &page);
	work_begin(&page, &subject);
	memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(memory, 0);
	own_pid = getpid();
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 / 5);
}

static void stop(void)
{
	process_work_stop(&work);
	loop_fini(&loop);
	close(memory);
}

TestSuite(process_work, .init = setup, .fini = stop, .timeout = 60);

/* --- how a read goes --- */

static enum {
	READS_AT_ONCE,
	STOPS,	   /* the first read, as one that waits for ever */
	SLEEPS,	   /* for a part of what all reads may take */
	IS_KILLED, /* after a read */
} reader;

ssize_t __real_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset)
{
	const struct timespec pause = {.tv_nsec = 40 * NS_PER_MS};

	if (reader == STOPS)
		kill(getpid(), SIGSTOP);
	if (reader == SLEEPS)
		nanosleep(&pause, NULL);
	return __real_pread(fd, buffer, length, offset);
}

/* --- work --- */

struct job {
	int fd;
	size_t wanted, piece;
	/* The result. */
	pid_t pid;
	unsigned int reads;
	ssize_t last; /* what the last read returned */
	uint8_t found[BYTES];
};

static struct job job;

static void copy(void *context)
{
	struct job *j = context;
	size_t done = 0;

	j->pid = getpid();
	while (done < j->wanted) {
		const size_t left = j->wanted - done;

		j->last =
		    process_work_read(&work, j->fd, own_pid, (uint64_t)(uintptr_t)content + done,
				      j->found + done, left < j->piece ? left : j->piece);
		j->reads++;
		if (j->last <= 0)
			return;
		done += (size_t)j->last;
		if (reader == IS_KILLED)
			kill(getpid(), SIGKILL);
	}
}

static int do_copy(int fd, size_t wanted)
{
	job = (struct job){.fd = fd, .wanted = wanted, .piece = BYTES};
	return process_work_run(&work, copy, &job, fd);
}

Test(process_work, is_done_by_a_helper_on_the_data_of_the_role)
{
	cr_assert_eq(do_copy(memory, BYTES), 0);
	cr_expect_neq(job.pid, getpid());
	cr_expect_eq(job.pid, work.helper.pid);
	cr_expect_arr_eq(job.found, content, BYTES);
	cr_expect_gt(job.reads, 1);
	cr_expect_gt(process_work_take_used_ns(&work), 0);
	cr_expect_eq(process_work_take_used_ns(&work), 0);
	const pid_t first = job.pid;
	cr_assert_eq(do_copy(memory, 10), 0);
	cr_expect_eq(job.pid, first, "it stays");
}

Test(process_work, without_a_descriptor_the_process_is_read)
{
	cr_assert_eq(do_copy(-1, BYTES), 0);
	cr_expect_arr_eq(job.found, content, BYTES);
}

Test(process_work, without_a_helper_the_caller_works)
{
	job = (struct job){.fd = memory, .wanted = 100, .piece = BYTES};
	cr_assert_eq(process_work_run(NULL, copy, &job, memory), 0);
	cr_expect_eq(job.pid, getpid());
	cr_expect_arr_eq(job.found, content, 100);
}

Test(process_work, who_makes_a_read_wait_is_left_alone)
{
	const uint8_t nothing[BYTES] = {0};

	reader = STOPS;
	cr_expect_eq(do_copy(memory, BYTES), -ETIMEDOUT);
	cr_expect(work_is_quarantined(&page, &page.subject));
	cr_expect_eq(work.helper.pid, 0);
	cr_expect_eq(job.reads, 0, "it did not come back");
	cr_expect_arr_eq(job.found, nothing, BYTES);
	const pid_t first = job.pid;
	reader = READS_AT_ONCE;
	cr_assert_eq(do_copy(memory, BYTES), 0, "there is another one");
	cr_expect_neq(job.pid, first);
	cr_expect_arr_eq(job.found, content, BYTES);
}

Test(process_work, many_short_waits_end_the_work)
{
	reader = SLEEPS;
	job = (struct job){.fd = memory, .wanted = BYTES, .piece = 10};
	cr_assert_eq(process_work_run(&work, copy, &job, memory), 0);
	cr_expect_eq(job.last, -ETIMEDOUT);
	cr_expect_leq(job.reads, 4);
	cr_expect_not(work_is_quarantined(&page, &page.subject));
	const pid_t first = job.pid;
	reader = READS_AT_ONCE;
	cr_assert_eq(do_copy(memory, BYTES), 0);
	cr_expect_arr_eq(job.found, content, BYTES, "the next work has its own time");
	cr_expect_eq(job.pid, first);
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

	cr_expect_eq(process_work_run(&work, compute, &rounds, memory), 0);
	cr_expect_gt(rounds, 0);
	cr_expect_not(work_is_quarantined(&page, &page.subject));
}

Test(process_work, a_helper_that_ended_meanwhile_is_replaced)
{
	cr_assert_eq(do_copy(memory, 100), 0);
	struct pollfd end = {.fd = work.helper.fd, .events = POLLIN};
	kill(work.helper.pid, SIGKILL);
	cr_assert_eq(poll(&end, 1, -1), 1);
	cr_assert_eq(do_copy(memory, 100), 0);
	cr_expect_arr_eq(job.found, content, 100);
}

Test(process_work, if_it_dies_in_the_middle_so_does_the_role, .exit_code = STATUS_FAILED)
{
	reader = IS_KILLED;
	do_copy(memory, BYTES);
}
