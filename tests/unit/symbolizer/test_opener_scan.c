/* SPDX-License-Identifier: Apache-2.0 */
/* The opener reports all processes in parts, and answers other requests in between. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "role/handlers.h"
#include "symbolizer/opener/handlers.h"
#include "symbolizer/opener/opener.h"

enum {
	CHILDREN = 40
};

static struct work_page work_page;
static struct opener opener = {.role.work_page = &work_page};
static pid_t children[CHILDREN];
static bool reported[CHILDREN];
static unsigned int answers, answers_before_file, scans_done, files;
static bool ask; /* for a file, after the first answer */

static int call(enum message_type type, void *payload, unsigned int length)
{
	struct message message = {.type = type, .payload = payload, .length = length};

	return handlers_call(opener.role.handlers, opener.role.context, &message);
}

/* The manager asks for a file as soon as it knows the first processes. */
static void ask_for_a_file(void)
{
	struct msg_open_file request = {.tgid = (uint32_t)getpid(), .device_major = 8};

	cr_expect_eq(call(MESSAGE_OPEN_FILE, &request, sizeof(request)), 0);
}

int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count);
int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count)
{
	(void)length;
	(void)fds;
	(void)fd_count;
	cr_expect_eq(peer, &opener.role.peers[ROLE_MANAGER]);
	answers += type == MESSAGE_MAPS;
	scans_done += type == MESSAGE_SCAN_DONE;
	files += type == MESSAGE_FILE;
	if (type == MESSAGE_FILE)
		answers_before_file = answers;
	for (int i = 0; type == MESSAGE_MAPS && i < CHILDREN; i++)
		reported[i] |= ((const struct msg_maps_of *)payload)->tgid == (uint32_t)children[i];
	if (ask) {
		ask = false;
		ask_for_a_file();
	}
	if (type == MESSAGE_SCAN_DONE)
		loop_stop(&opener.role.loop, 0);
	return 0;
}

static void setup(void)
{
	opener_set_handlers(&opener);
	cr_assert_eq(loop_init(&opener.role.loop), 0);
	cr_assert_eq(opener_start_lanes(&opener), 0);
	opener.proc = opendir("/proc");
	cr_assert_not_null(opener.proc);
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		if (!children[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
	}
}

static void teardown(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	for (int i = 0; i < LANE_COUNT; i++)
		lane_stop(&opener.lanes[i]);
	loop_fini(&opener.role.loop);
	closedir(opener.proc);
}

TestSuite(opener_scan, .init = setup, .fini = teardown);

static void scan(void)
{
	opener.role.loop.stopped = false;
	cr_assert_eq(call(MESSAGE_SCAN, NULL, 0), 0);
	cr_assert_eq(loop_run(&opener.role.loop), 0);
}

Test(opener_scan, other_requests_are_answered_in_between)
{
	ask = true;
	scan();
	cr_expect_eq(files, 1);
	cr_expect_lt(answers_before_file, CHILDREN);
	cr_expect_eq(scans_done, 1);
	cr_expect_geq(answers, CHILDREN);
	for (int i = 0; i < CHILDREN; i++)
		cr_expect(reported[i]);
}

Test(opener_scan, a_second_one_begins_again)
{
	scan();
	const unsigned int first = answers;
	scan();
	cr_expect_geq(answers - first, CHILDREN);
	cr_expect_eq(scans_done, 2);
}
