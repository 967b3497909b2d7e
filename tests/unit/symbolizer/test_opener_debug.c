/* SPDX-License-Identifier: Apache-2.0 */
/* The opener's messages about debug files. The lanes are replaced: what is given to them is opened
 * by the test, by the function that helpers call. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "role/handlers.h"
#include "symbolizer/opener/handlers.h"
#include "symbolizer/opener/opener.h"

static struct work_page work_page;
static struct opener opener = {.role.work_page = &work_page};
static struct opening asked; /* of the lane, the last time */
static struct lane *asked_lane;
static unsigned int asks;
static int lane_result;
static struct msg_debug_file answer; /* to the worker, the last one */
static unsigned int answers, answered_fds;
static int answered_fd;

int __wrap_lane_add(struct lane *lane, const struct opening *opening);
int __wrap_lane_add(struct lane *lane, const struct opening *opening)
{
	asked = *opening;
	asked_lane = lane;
	asks++;
	return lane_result;
}

int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count);
int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count)
{
	cr_expect_eq(type, MESSAGE_DEBUG_FILE);
	cr_expect_eq(peer, &opener.role.peers[ROLE_WORKER]);
	cr_assert_eq(length, sizeof(answer));
	memcpy(&answer, payload, length);
	answered_fds = fd_count;
	answered_fd = fd_count ? fds[0] : -1;
	answers++;
	return 0;
}

static int call(struct message *message)
{
	return handlers_call(opener.role.handlers, opener.role.context, message);
}

/* Configures these many directories, whose descriptors are those of `directory`. */
static void configure(const char *directory, unsigned int count)
{
	struct msg_configure_opener config = {0};
	struct message message = {
	    .type = MESSAGE_CONFIGURE_OPENER, .payload = (void *)&config, .length = sizeof(config)};

	for (; message.fd_count < count; message.fd_count++) {
		message.fds[message.fd_count] = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
		cr_assert_geq(message.fds[message.fd_count], 0, "%s: %m", directory);
	}
	cr_assert_eq(call(&message), 0);
	for (unsigned int i = 0; i < count; i++)
		cr_expect_eq(message.fds[i], -1, "the opener has taken it");
}

static int request(uint32_t length)
{
	struct msg_open_debug wanted = {.module = 42, .length = length, .build_id = {0xab, 0xcd}};
	struct message message = {
	    .type = MESSAGE_OPEN_DEBUG, .payload = (void *)&wanted, .length = sizeof(wanted)};
	const int r = call(&message);

	cr_expect_eq(asked.kind, OPENING_DEBUG);
	cr_expect_eq(memcmp(&asked.debug, &wanted, sizeof(wanted)), 0);
	return r;
}

/* Does what the helper and then the lane do with what was asked for last. */
static void perform(void)
{
	struct opened opened = {0};

	opener.owner.perform(&asked, &opener.owner.directories, &opened);
	opener.owner.done(&opener, &asked, &opened);
	opened_close(&opened);
}

static void setup(void)
{
	opener_set_handlers(&opener);
	cr_assert_eq(loop_init(&opener.role.loop), 0);
	cr_assert_eq(opener_start_lanes(&opener), 0);
}

static void teardown(void)
{
	for (int i = 0; i < LANE_COUNT; i++)
		lane_stop(&opener.lanes[i]);
	loop_fini(&opener.role.loop);
}

TestSuite(opener_debug, .init = setup, .fini = teardown);

/* The opener is configured before anything else. */
Test(opener_debug, directories_stay_when_the_lanes_start)
{
	teardown();
	opener_set_handlers(&opener);
	cr_assert_eq(loop_init(&opener.role.loop), 0);
	configure("/", 2);
	cr_assert_eq(opener_start_lanes(&opener), 0);
	cr_expect_eq(opener.owner.directories.count, 2);
	cr_expect_geq(opener.owner.directories.fds[1], 0);
}

Test(opener_debug, a_request_waits_with_those_for_files_that_may_not_answer)
{
	cr_assert_eq(request(2), 0);
	cr_expect_eq(asks, 1);
	cr_expect_eq(asked_lane, &opener.lanes[LANE_WITHOUT_DISK]);
	cr_expect_eq(asked.tgid, 0);
	cr_expect_eq(asked.uid, TENANT_UID_UNKNOWN);
	cr_expect_eq(answers, 0);
}

Test(opener_debug, a_request_for_a_process_is_that_of_its_user)
{
	struct msg_open_debug wanted = {
	    .module = 42, .place = MSG_DEBUG_OF_PROCESS, .tgid = (uint32_t)getpid(), .inode = 1};
	struct message message = {
	    .type = MESSAGE_OPEN_DEBUG, .payload = (void *)&wanted, .length = sizeof(wanted)};
	struct opened opened = {0};

	cr_assert_eq(call(&message), 0);
	cr_expect_eq(asked.kind, OPENING_DEBUG_OF_PROCESS);
	cr_expect_eq(asked.tgid, getpid());
	cr_expect_eq(asked.uid, geteuid());
	cr_expect_eq(asked_lane, &opener.lanes[LANE_WITHOUT_DISK]);
	opener.owner.perform(&asked, &opener.owner.directories, &opened);
	opener.owner.done(&opener, &asked, &opened);
	cr_expect_eq(answer.module, 42);
	cr_expect_eq(answer.place, MSG_DEBUG_OF_PROCESS);
	cr_expect_eq(answer.error, ESRCH, "it maps no such file");
}

/* Of another place, the process does not count: nobody makes debug files be left alone for it. */
Test(opener_debug, a_request_for_the_host_is_of_no_process)
{
	struct msg_open_debug wanted = {.module = 42, .place = 7, .tgid = (uint32_t)getpid()};
	struct message message = {
	    .type = MESSAGE_OPEN_DEBUG, .payload = (void *)&wanted, .length = sizeof(wanted)};

	cr_assert_eq(call(&message), 0);
	cr_expect_eq(asked.kind, OPENING_DEBUG);
	cr_expect_eq(asked.tgid, 0);
	cr_expect_eq(asked.uid, TENANT_UID_UNKNOWN);
}

/* The worker has no say in what it is called. */
Test(opener_debug, a_request_for_that_of_the_kernel_gets_the_version_from_the_opener)
{
	struct msg_open_debug wanted = {.module = 0,
					.place = MSG_DEBUG_KERNEL_OF_HOST,
					.tgid = (uint32_t)getpid(),
					.length = 2,
					.link = "../../../etc/shadow"};
	struct message message = {
	    .type = MESSAGE_OPEN_DEBUG, .payload = (void *)&wanted, .length = sizeof(wanted)};

	memcpy(opener.kernel_version, "6.1.0", sizeof("6.1.0"));
	cr_assert_eq(call(&message), 0);
	cr_expect_eq(asked.kind, OPENING_DEBUG);
	cr_expect_eq(asked.tgid, 0);
	cr_expect_str_eq(asked.debug.link, "6.1.0");
	cr_expect_eq(memcmp(asked.debug.link, opener.kernel_version, sizeof(asked.debug.link)), 0);
}

Test(opener_debug, one_for_which_there_is_no_room_is_dropped)
{
	lane_result = -ENOBUFS;
	cr_expect_eq(request(2), 0);
	lane_result = -ENOMEM;
	cr_expect_eq(request(2), -ENOMEM);
	cr_expect_eq(answers, 0);
}

Test(opener_debug, the_answer_has_the_module_and_the_errno)
{
	cr_assert_eq(request(2), 0);
	perform();
	cr_expect_eq(answers, 1);
	cr_expect_eq(answer.module, 42);
	cr_expect_eq(answer.error, ENOENT, "there are no directories");
	cr_expect_eq(answered_fds, 0);

	configure("/proc/self/fd", 1);
	cr_assert_eq(request(2), 0);
	perform();
	cr_expect_eq(answers, 2);
	cr_expect_eq(answer.error, ENOENT);

	cr_assert_eq(request(MSG_BUILD_ID_BYTES + 1), 0);
	perform();
	cr_expect_eq(answer.module, 42);
	cr_expect_eq(answer.error, EINVAL);
	cr_expect_eq(answered_fds, 0);

	/* What the lane says if the helper hangs. */
	opener.owner.done(&opener, &asked, &(struct opened){.error = -ETIMEDOUT});
	cr_expect_eq(answer.error, ETIMEDOUT);
	cr_expect_eq(answers, 4);
}

Test(opener_debug, the_answer_has_the_descriptor)
{
	cr_assert_eq(request(2), 0);
	opener.owner.done(&opener, &asked,
			  &(struct opened){.fd_count = 1, .fds = {9}, .debug_path = 3});
	cr_expect_eq(answers, 1);
	cr_expect_eq(answer.module, 42);
	cr_expect_eq(answer.place, MSG_DEBUG_OF_HOST);
	cr_expect_eq(answer.path, 3);
	cr_expect_eq(answer.error, 0);
	cr_expect_eq(answered_fds, 1);
	cr_expect_eq(answered_fd, 9);
}

Test(opener_debug, all_directories_of_the_configuration_are_kept)
{
	struct stat expected, st;

	configure("/proc", LIMIT_DEBUG_DIRECTORIES);
	cr_assert_eq(stat("/proc", &expected), 0);
	cr_assert_eq(opener.owner.directories.count, LIMIT_DEBUG_DIRECTORIES);
	for (unsigned int i = 0; i < LIMIT_DEBUG_DIRECTORIES; i++) {
		cr_expect_eq(fstat(opener.owner.directories.fds[i], &st), 0, "%u: %m", i);
		cr_expect_eq(st.st_ino, expected.st_ino);
		for (unsigned int other = 0; other < i; other++)
			cr_expect_neq(opener.owner.directories.fds[i],
				      opener.owner.directories.fds[other]);
	}
	for (int i = 0; i < LANE_COUNT; i++)
		cr_expect_eq(opener.lanes[i].owner, &opener.owner, "which gives them to helpers");
}

Test(opener_debug, a_configuration_may_have_no_directories)
{
	configure("/proc", 0);
	cr_expect_eq(opener.owner.directories.count, 0);
}

/* From the request to the descriptor, with a file of its own. */
Test(opener_debug, the_file_is_searched_in_these_directories)
{
	char directory[] = "/tmp/unit-opener_debug-XXXXXX", path[64];

	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/abcd", directory);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/abcd/debuginfo", directory);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	configure(directory, 1);
	cr_assert_eq(request(2), 0);
	perform();
	cr_expect_eq(answer.error, 0, "%s", strerror((int)answer.error));
	cr_expect_eq(answered_fds, 1);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(request(2), 0);
	perform();
	cr_expect_eq(answer.error, ENOENT);
	snprintf(path, sizeof(path), "%s/abcd", directory);
	cr_expect_eq(rmdir(path), 0);
	cr_expect_eq(rmdir(directory), 0);
}
