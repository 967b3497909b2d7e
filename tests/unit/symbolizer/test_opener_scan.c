/* SPDX-License-Identifier: Apache-2.0 */
/* The opener reports all processes in parts, and answers other requests in between. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "role/handlers.h"
#include "symbolizer/opener/handlers.h"
#include "symbolizer/opener/opener.h"

enum {
	CHILDREN = 40
};

static struct opener opener;
static pid_t children[CHILDREN];
static bool reported[CHILDREN];
static unsigned int answers, scans_done, files;
static int result; /* of peer_send() */

static int call(enum message_type type, void *payload, unsigned int length)
{
	struct message message = {.type = type, .payload = payload, .length = length};

	return handlers_call(opener.role.handlers, opener.role.context, &message);
}

/* The manager asks for a file as soon as it knows the first processes. */
static void ask_for_a_file(void)
{
	struct msg_open_file request = {.tgid = (uint32_t)getpid()};

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
	for (int i = 0; type == MESSAGE_MAPS && i < CHILDREN; i++)
		reported[i] |= ((const struct msg_maps_of *)payload)->tgid == (uint32_t)children[i];
	return result;
}

static void setup(void)
{
	opener_set_handlers(&opener);
	opener.proc = opendir("/proc");
	cr_assert_not_null(opener.proc);
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		if (!children[i]) {
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
	closedir(opener.proc);
}

TestSuite(opener_scan, .init = setup, .fini = teardown);

/* Does what the loop does between two messages. Returns false if nothing is left to do. */
static bool tick(void)
{
	struct loop *loop = &opener.role.loop;

	if (!loop->tick)
		return false;
	loop->tick(loop->tick_context, 0);
	return true;
}

Test(opener_scan, other_requests_are_answered_in_between)
{
	unsigned int parts = 0;

	cr_assert_eq(call(MESSAGE_SCAN, NULL, 0), 0);
	cr_assert(tick());
	cr_expect_gt(answers, 0);
	cr_expect_eq(scans_done, 0);
	ask_for_a_file();
	cr_expect_eq(files, 1);
	while (tick())
		parts++;
	cr_expect_geq(parts, 2);
	cr_expect_eq(scans_done, 1);
	cr_expect_geq(answers, CHILDREN);
	for (int i = 0; i < CHILDREN; i++)
		cr_expect(reported[i]);
}

Test(opener_scan, a_second_one_begins_again)
{
	cr_assert_eq(call(MESSAGE_SCAN, NULL, 0), 0);
	while (tick())
		;
	const unsigned int first = answers;
	cr_assert_eq(call(MESSAGE_SCAN, NULL, 0), 0);
	while (tick())
		;
	cr_expect_geq(answers - first, CHILDREN);
	cr_expect_eq(scans_done, 2);
}

Test(opener_scan, ends_when_the_manager_is_gone)
{
	result = -EPIPE;
	cr_assert_eq(call(MESSAGE_SCAN, NULL, 0), 0);
	cr_expect(tick());
	cr_expect_not(tick());
	cr_expect_eq(answers, 1);
}
