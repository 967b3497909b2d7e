/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes with real helpers, which do here what a request's cookie says. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/opener/lane.h"

enum {
	WORKS,
	HANGS,
	DIES,
	FAILS,
	TWO_FDS,
	ASKS,  /* which descriptors the helper has */
	LISTS, /* the directories */
	DONE_MAX = 256,
};

static struct loop loop;
static struct quarantine quarantine;
static struct lane lane;
static bool stalled;
static unsigned int stop_after;

static struct {
	struct opening opening;
	int error;
	unsigned int fd_count;
	char text[64]; /* what the first descriptor has */
} done[DONE_MAX];
static unsigned int done_count;

static int file_with(const char *text)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0 || write(ends[1], text, strlen(text)) < 0)
		_exit(2);
	close(ends[1]);
	return ends[0];
}

/* Returns a file with the number of directories and the first byte of each: here they are files. */
static int list(const struct directories *directories)
{
	char text[64];
	int length = snprintf(text, sizeof(text), "%u ", directories->count);

	for (unsigned int i = 0; i < directories->count; i++, length++) {
		if (pread(directories->fds[i], text + length, 1, 0) != 1)
			_exit(2);
	}
	text[length] = 0;
	return file_with(text);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void perform(const struct opening *opening, const struct directories *directories,
		    struct opened *opened)
{
	char text[64], name[16];
	unsigned int open = 0;
	struct stat null, standard_error;

	switch (opening->cookie) {
	case HANGS:
		for (;;)
			pause();
	case DIES:
		raise(SIGKILL);
		break;
	case FAILS:
		opened->error = -EACCES;
		return;
	case ASKS:
		for (int fd = 0; fd < 1024; fd++)
			open += is_open(fd);
		prctl(PR_GET_NAME, name);
		if (fstat(STDERR_FILENO, &standard_error) < 0 || fstat(STDIN_FILENO, &null) < 0)
			_exit(2);
		snprintf(text, sizeof(text), "%u %s %d", open, name,
			 standard_error.st_rdev == null.st_rdev);
		opened->fds[opened->fd_count++] = file_with(text);
		return;
	case LISTS:
		opened->fds[opened->fd_count++] = list(directories);
		return;
	case TWO_FDS:
		opened->fds[opened->fd_count++] = file_with("first");
		break;
	}
	snprintf(text, sizeof(text), "of %u", opening->tgid);
	opened->fds[opened->fd_count++] = file_with(text);
}

static void on_done(void *context, const struct opening *opening, const struct opened *opened)
{
	cr_expect_eq(context, &done);
	cr_assert_lt(done_count, DONE_MAX);
	done[done_count].opening = *opening;
	done[done_count].error = opened->error;
	done[done_count].fd_count = opened->fd_count;
	if (opened->fd_count)
		cr_expect_gt(read(opened->fds[0], done[done_count].text, 63), 0);
	if (++done_count == stop_after)
		loop_stop(&loop, 0);
}

static bool is_stalled(void *context)
{
	(void)context;
	return stalled;
}

static struct lane_owner owner = {
    .perform = perform, .done = on_done, .is_stalled = is_stalled, .context = &done};

static void on_tick(void *context, uint32_t events)
{
	(void)events;
	lane_tick(context);
}

static void setup(void)
{
	/* As in a role. */
	const int null = open("/dev/null", O_RDWR);

	dup2(null, STDIN_FILENO);
	close(null);
	cr_assert_eq(loop_init(&loop), 0);
	cr_assert_eq(lane_start(&lane, &owner, &quarantine, &loop), 0);
	/* The lane asks for the ticks that it needs; the first one, which comes in any case, has
	 * been. */
	loop_set_tick(&loop, 60000, on_tick, &lane);
	loop.next_tick_ns = UINT64_MAX;
}

static void teardown(void)
{
	lane_stop(&lane);
	cr_expect_eq(lane.helper.left_count, 0);
	loop_fini(&loop);
}

TestSuite(lane, .init = setup, .fini = teardown, .timeout = 30);

static void add_kind(enum opening_kind kind, uint32_t tgid, uint32_t what)
{
	const struct opening opening = {.kind = kind, .tgid = tgid, .cookie = what};

	cr_assert_eq(lane_add(&lane, &opening), 0);
}

static void add(uint32_t tgid, uint32_t what)
{
	add_kind(OPENING_MAPS, tgid, what);
}

/* Runs until `count` requests are done, since the start of the test. */
static void run_until(unsigned int count)
{
	stop_after = count;
	if (done_count < count) {
		loop.stopped = false;
		cr_assert_eq(loop_run(&loop), 0);
	}
}

Test(lane, answers_come_in_the_order_of_the_requests)
{
	for (uint32_t i = 1; i <= 200; i++)
		add(i, i % 7 ? WORKS : FAILS);
	run_until(200);
	for (uint32_t i = 1; i <= 200; i++) {
		char expected[64];

		snprintf(expected, sizeof(expected), i % 7 ? "of %u" : "", i);
		cr_expect_eq(done[i - 1].opening.tgid, i);
		cr_expect_eq(done[i - 1].error, i % 7 ? 0 : -EACCES);
		cr_expect_eq(done[i - 1].fd_count, i % 7 != 0);
		cr_expect_str_eq(done[i - 1].text, expected);
	}
	cr_expect_eq(lane.count, 0);
}

Test(lane, several_descriptors_are_one_answer)
{
	add(1, TWO_FDS);
	run_until(1);
	cr_expect_eq(done[0].fd_count, 2);
	cr_expect_str_eq(done[0].text, "first");
}

Test(lane, one_that_is_for_nobody_has_its_turn)
{
	add(1, WORKS);
	cr_assert_eq(lane_add(&lane, &(struct opening){.kind = OPENING_NOTHING}), 0);
	add(2, WORKS);
	run_until(3);
	cr_expect_eq(done[0].opening.tgid, 1);
	cr_expect_eq(done[1].opening.kind, OPENING_NOTHING);
	cr_expect_eq(done[1].error, 0);
	cr_expect_eq(done[2].opening.tgid, 2);
}

Test(lane, a_helper_that_hangs_costs_one_request)
{
	const pid_t first = lane.helper.pid;
	const uint64_t start_ns = clock_monotonic_ns();

	add(1, WORKS);
	add(2, HANGS);
	for (uint32_t i = 3; i <= 40; i++)
		add(i, WORKS);
	run_until(40);
	cr_expect_geq(clock_monotonic_ns() - start_ns, LANE_DEADLINE_MS * NS_PER_MS);
	for (uint32_t i = 1; i <= 40; i++) {
		cr_expect_eq(done[i - 1].opening.tgid, i);
		cr_expect_eq(done[i - 1].error, i == 2 ? -ETIMEDOUT : 0);
	}
	cr_expect_neq(lane.helper.pid, first);
	/* What hung is not tried again. */
	add(2, WORKS);
	run_until(41);
	cr_expect_eq(done[40].error, -ETIMEDOUT);
}

Test(lane, a_helper_that_dies_costs_one_request)
{
	add(1, DIES);
	add(2, WORKS);
	run_until(2);
	cr_expect_eq(done[0].error, -ETIMEDOUT);
	cr_expect_eq(done[1].error, 0);
}

Test(lane, a_helper_that_dies_while_it_has_nothing_to_do_is_replaced)
{
	add(1, WORKS);
	run_until(1);
	kill(lane.helper.pid, SIGKILL);
	add(2, WORKS);
	run_until(2);
	/* The request may have been sent before its end was noticed. */
	add(3, WORKS);
	run_until(3);
	cr_expect_eq(done[2].error, 0);
}

Test(lane, nothing_is_done_while_the_owner_is_stalled)
{
	stalled = true;
	add(1, WORKS);
	cr_assert_eq(lane_add(&lane, &(struct opening){.kind = OPENING_NOTHING}), 0);
	usleep(100000);
	for (int i = 0; i < 5; i++)
		lane_tick(&lane);
	cr_expect_eq(done_count, 0);
	stalled = false;
	run_until(2);
	cr_expect_eq(done[0].error, 0);
}

Test(lane, with_too_many_that_do_not_end_requests_fail)
{
	struct helper *helper = &lane.helper;

	/* As if it had died. */
	helper_drop(helper);
	while (helper->left_count)
		helper_collect(helper);
	for (; helper->left_count < HELPERS_LEFT_MAX; helper->left_count++) {
		const pid_t child = fork();

		if (!child) {
			for (;;)
				pause();
		}
		helper->left[helper->left_count] = child;
	}
	add(1, WORKS);
	run_until(1);
	cr_expect_eq(done[0].error, -EAGAIN);
	for (unsigned int i = 0; i < HELPERS_LEFT_MAX; i++)
		kill(helper->left[i], SIGKILL);
	while (helper->left_count)
		lane_tick(&lane);
	add(2, WORKS);
	run_until(2);
	cr_expect_eq(done[1].error, 0);
}

Test(lane, a_helper_keeps_none_of_the_openers_descriptors)
{
	/* Below and above the socket. */
	const int kept = open("/dev/zero", O_RDONLY), high = fcntl(kept, F_DUPFD, 500);

	cr_assert_geq(high, 500);
	add(1, HANGS); /* so that a helper starts that inherits it */
	add(2, ASKS);
	run_until(2);
	cr_expect_str_eq(done[1].text, "4 bulkhead-symh 1", "%s", done[1].text);
	close(kept);
	close(high);
}

Test(lane, is_bounded)
{
	int r = 0;

	stalled = true;
	for (uint32_t i = 0; i < LANE_REQUESTS_MAX && !r; i++)
		r = lane_add(&lane, &(struct opening){.kind = OPENING_NOTHING, .tgid = i});
	cr_expect_eq(r, 0);
	cr_expect_eq(lane_add(&lane, &(struct opening){.kind = OPENING_NOTHING}), -ENOBUFS);
}

/* --- directories of debug files --- */

/* Gives the owner as many directories as there may be: files with the bytes a, b, c ... */
static void make_directories(void)
{
	for (unsigned int i = 0; i < LIMIT_DEBUG_DIRECTORIES; i++) {
		const char byte = (char)('a' + i);
		const int fd = memfd_create("directory", MFD_CLOEXEC);

		cr_assert_eq(write(fd, &byte, 1), 1, "%m");
		owner.directories.fds[owner.directories.count++] = fd;
	}
}

Test(lane, only_requests_for_debug_files_come_with_directories)
{
	static const enum opening_kind others[] = {OPENING_MAPS, OPENING_FILE, OPENING_IDENTITY,
						   OPENING_MEMORY};
	unsigned int count = 0;

	add_kind(OPENING_DEBUG, 0, LISTS);
	run_until(++count);
	cr_expect_str_eq(done[0].text, "0 ");
	make_directories();
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		add_kind(others[i], 1, LISTS);
		add_kind(OPENING_DEBUG, 0, LISTS);
		run_until(count += 2);
		cr_expect_str_eq(done[count - 2].text, "0 ", "kind %d", others[i]);
		cr_expect_str_eq(done[count - 1].text, "8 abcdefgh", "%s", done[count - 1].text);
	}
	for (unsigned int i = 0; i < owner.directories.count; i++)
		cr_expect(is_open(owner.directories.fds[i]), "they are the owner's");
}

Test(lane, the_next_helper_gets_the_directories_too)
{
	const pid_t first = lane.helper.pid;

	make_directories();
	add(1, DIES);
	for (unsigned int i = 0; i < 40; i++)
		add_kind(OPENING_DEBUG, 0, LISTS);
	run_until(41);
	cr_expect_neq(lane.helper.pid, first);
	cr_expect_eq(done[0].error, -ETIMEDOUT);
	for (unsigned int i = 1; i <= 40; i++)
		cr_expect_str_eq(done[i].text, "8 abcdefgh", "%u: %s", i, done[i].text);
}

/* All descriptors together would be more than a process may have. */
Test(lane, a_helper_closes_the_directories_after_each_request)
{
	const pid_t helper = lane.helper.pid;

	make_directories();
	for (unsigned int i = 0; i < 200; i++)
		add_kind(OPENING_DEBUG, 0, i % 10 ? LISTS : FAILS);
	add(1, ASKS);
	add_kind(OPENING_DEBUG, 0, ASKS);
	run_until(202);
	cr_expect_eq(lane.helper.pid, helper);
	for (unsigned int i = 0; i < 200; i++)
		cr_expect_str_eq(done[i].text, i % 10 ? "8 abcdefgh" : "", "%u", i);
	cr_expect_str_eq(done[200].text, "4 bulkhead-symh 1", "%s", done[200].text);
	cr_expect_str_eq(done[201].text, "12 bulkhead-symh 1", "%s", done[201].text);
}
