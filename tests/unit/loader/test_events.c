/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's perf events on CPUs that come and go. The kernel's side is replaced: the linker directs the calls of
 * syscall(2) and ioctl(2) to the functions below (--wrap), which hand out descriptors of /dev/null. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "loader/loader.h"

enum {
	/* In the order of the loader's calls for one CPU. */
	SIDEBAND,
	SAMPLING,
	EVENTS,
	CPUS = 4,
};

static int event_error[CPUS][EVENTS]; /* errno of the next attempts; 0: the event is opened */
static unsigned int attempts[CPUS], events_of[CPUS];
static unsigned int rings_sent;
static struct loader loader;
static int captured[2];

long __wrap_syscall(long number, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

long __wrap_syscall(long number, ...)
{
	va_list arguments;

	cr_assert_eq(number, SYS_perf_event_open);
	va_start(arguments, number);
	(void)va_arg(arguments, void *);
	(void)va_arg(arguments, int);
	const int cpu = va_arg(arguments, int);
	va_end(arguments);
	cr_assert_lt(cpu, CPUS);
	const unsigned int event = events_of[cpu]++ % EVENTS;
	if (event == SIDEBAND)
		attempts[cpu]++;
	if (event_error[cpu][event]) {
		events_of[cpu] = 0;
		errno = event_error[cpu][event];
		return -1;
	}
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	(void)fd;
	(void)request;
	return 0;
}

int peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length, const int *fds, unsigned int fd_count)
{
	(void)peer;
	(void)payload;
	(void)length;
	cr_assert_eq(type, MESSAGE_SIDEBAND);
	cr_assert_eq(fd_count, 1);
	cr_assert_geq(fds[0], 0);
	rings_sent++;
	return 0;
}

static void set_online(const char *list)
{
	cr_assert_eq(ftruncate(loader.online_fd, 0), 0);
	cr_assert_eq(pwrite(loader.online_fd, list, strlen(list), 0), (ssize_t)strlen(list));
}

static void prepare(void)
{
	cr_assert_eq(pipe2(captured, O_NONBLOCK | O_CLOEXEC), 0);
	cr_assert_eq(dup2(captured[1], STDERR_FILENO), STDERR_FILENO);
	loader.online_fd = memfd_create("online", MFD_CLOEXEC);
	loader.config.frequency_hz = 99;
	loader.sampling = true;
	loader.role.state = ROLE_SAMPLING;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		loader.sample_fds[cpu] = loader.sideband_fds[cpu] = loader.link_fds[cpu] = -1;
}

TestSuite(events, .init = prepare);

/* Returns how many lines were logged since the last call. All must contain `text`. */
static unsigned int lines_with(const char *text)
{
	char buffer[8192];
	unsigned int count = 0;
	const ssize_t n = read(captured[0], buffer, sizeof(buffer) - 1);

	buffer[n > 0 ? n : 0] = 0;
	for (char *saved, *line = strtok_r(buffer, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved), count++)
		cr_assert(strstr(line, text), "logged \"%s\", expected \"%s\"", line, text);
	return count;
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 1000; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

Test(events, cpu_that_cannot_be_opened_is_logged_once)
{
	set_online("0-1\n");
	cr_assert_eq(events_open(&loader), STATUS_DONE);
	event_error[2][SIDEBAND] = EMFILE;
	set_online("0-2\n");
	for (int second = 0; second < 5; second++)
		events_follow_cpus(&loader);
	cr_assert_eq(lines_with("cpu=2 error=Too many open files"), 1);
	cr_assert_eq(attempts[2], 5, "the attempt is repeated");
	cr_assert_eq(attempts[0], 1);
}

Test(events, another_reason_is_logged_again)
{
	event_error[0][SIDEBAND] = EMFILE;
	set_online("0\n");
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("error=Too many open files"), 1);
	event_error[0][SIDEBAND] = ENOMEM;
	events_follow_cpus(&loader);
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("error=Cannot allocate memory"), 1);
}

Test(events, reason_is_logged_again_after_the_cpu_was_sampled_or_offline)
{
	event_error[1][SIDEBAND] = EMFILE;
	set_online("1\n");
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("cpu=1"), 1);
	set_online("0\n");
	events_follow_cpus(&loader);
	set_online("1\n");
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("cpu=1"), 1, "after it was offline");
	event_error[1][SIDEBAND] = 0;
	events_follow_cpus(&loader);
	cr_assert_geq(loader.sample_fds[1], 0);
	set_online("0\n");
	events_follow_cpus(&loader);
	event_error[1][SIDEBAND] = EMFILE;
	set_online("1\n");
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("cpu=1"), 1, "after it was sampled");
}

Test(events, cpus_after_one_that_fails_are_sampled)
{
	event_error[0][SIDEBAND] = EMFILE;
	event_error[1][SAMPLING] = EMFILE;
	set_online("0-3\n");
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("error=Too many open files"), 2);
	cr_assert_lt(loader.sample_fds[0], 0);
	cr_assert_lt(loader.sample_fds[1], 0);
	cr_assert_geq(loader.sample_fds[2], 0);
	cr_assert_geq(loader.sample_fds[3], 0);
}

Test(events, failed_sampling_event_leaves_no_sideband_event_open)
{
	const int before = open_descriptors();

	event_error[0][SAMPLING] = EMFILE;
	set_online("0\n");
	for (int second = 0; second < 5; second++)
		events_follow_cpus(&loader);
	cr_assert_lt(loader.sideband_fds[0], 0);
	cr_assert_eq(open_descriptors(), before);
}

Test(events, cpu_that_went_offline_while_it_is_opened_is_no_failure)
{
	event_error[1][SAMPLING] = ENODEV;
	set_online("0-1\n");
	cr_assert_eq(events_open(&loader), STATUS_DONE);
	cr_assert_eq(lines_with(""), 0);
	cr_assert_geq(loader.sample_fds[0], 0);
	cr_assert_lt(loader.sideband_fds[1], 0);
}

Test(events, start_fails_if_the_kernel_refuses_an_event)
{
	event_error[0][SIDEBAND] = EACCES;
	set_online("0-3\n");
	cr_assert_eq(events_open(&loader), STATUS_NOT_PERMITTED);
	cr_assert_eq(lines_with("the kernel refused a perf event: cpu=0"), 1);
	cr_assert_eq(attempts[1], 0);
}

Test(events, list_that_cannot_be_read_is_reported)
{
	set_online("");
	cr_assert_eq(events_open(&loader), STATUS_FAILED);
	cr_assert_eq(lines_with("cannot read the list of CPUs, so nothing is sampled"), 1);
	events_follow_cpus(&loader);
	events_follow_cpus(&loader);
	cr_assert_eq(lines_with("so a CPU that comes online is not sampled"), 1);
}

Test(events, both_events_of_a_cpu_that_went_offline_are_closed)
{
	const int before = open_descriptors();

	set_online("0-1\n");
	cr_assert_eq(events_open(&loader), STATUS_DONE);
	cr_assert_eq(rings_sent, 2);
	set_online("0\n");
	events_follow_cpus(&loader);
	cr_assert_lt(loader.sample_fds[1], 0);
	cr_assert_lt(loader.sideband_fds[1], 0);
	cr_assert_eq(open_descriptors(), before + 2);
}
