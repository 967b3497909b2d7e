/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a role connects to, and connections to a role whose main loop runs: of peers that come later, and of others. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "common/time_units.h"
#include "role/role.h"

static const struct sandbox_policy policy = {.peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_EXPORTER)};
static struct role role;
static struct peer exporter;
static char run_dir[64], socket_dir[128], socket_path[256];
static int captured[2];

static void role_setup(void)
{
	cr_assert(pipe2(captured, O_NONBLOCK | O_CLOEXEC) == 0 && dup2(captured[1], STDERR_FILENO) == STDERR_FILENO);
	snprintf(run_dir, sizeof(run_dir), "/tmp/bulkhead-role-XXXXXX");
	cr_assert(mkdtemp(run_dir));
	snprintf(socket_dir, sizeof(socket_dir), "%s/%s", run_dir, role_names[ROLE_WORKER].directory);
	cr_assert_eq(mkdir(socket_dir, 0700), 0);
	snprintf(socket_path, sizeof(socket_path), "%s/sock", socket_dir);
	role = (struct role){.self = ROLE_WORKER, .policy = &policy, .run_dir = run_dir};
	for (int i = 0; i < ROLE_COUNT; i++) {
		role.peers[i].fd = -1;
		role.uids.uid[i] = getuid() + 1 + (uid_t)i;
	}
	/* The test itself connects as the exporter, and is connected to. */
	role.uids.uid[ROLE_WORKER] = role.uids.uid[ROLE_EXPORTER] = getuid();
	cr_assert_eq(loop_init(&role.loop), 0);
	role.listener = peer_listen(run_dir, ROLE_WORKER);
	cr_assert_geq(role.listener, 0);
	cr_assert_eq(role_watch_peers(&role), 0);
}

static void role_teardown(void)
{
	peer_close(&exporter);
	for (int i = 0; i < ROLE_COUNT; i++)
		peer_close(&role.peers[i]);
	close(role.listener);
	unlink(socket_path);
	rmdir(socket_dir);
	rmdir(run_dir);
}

TestSuite(role, .init = role_setup, .fini = role_teardown, .timeout = 20);

static void connect_to_role(void)
{
	peer_close(&exporter);
	cr_assert_eq(peer_connect(&exporter, run_dir, ROLE_EXPORTER, ROLE_WORKER, &role.uids, 1000), 0);
}

/* Returns how many lines with `text` were logged since the last call. */
static unsigned int lines_with(const char *text)
{
	char buffer[8192];
	unsigned int count = 0;
	const ssize_t n = read(captured[0], buffer, sizeof(buffer) - 1);

	buffer[n > 0 ? n : 0] = 0;
	for (const char *at = buffer; (at = strstr(at, text)); at++)
		count++;
	return count;
}

static void end_loop(void *context, enum role_id other)
{
	(void)context;
	cr_expect_eq(other, ROLE_EXPORTER);
	loop_stop(&role.loop, STATUS_DONE);
}

Test(role, a_peer_may_connect_later)
{
	role.on_connected = end_loop;
	exporter.fd = -1;
	connect_to_role();
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	cr_expect_geq(role.peers[ROLE_EXPORTER].fd, 0);
}

static unsigned int resets, gone;
static bool survives;

static int count_resets(void *context, struct message *message)
{
	(void)context;
	resets += message->type == MESSAGE_RESET_REQUEST;
	return 0;
}

static bool note_end(void *context, enum role_id other, bool ended)
{
	(void)context;
	cr_expect_eq(other, ROLE_EXPORTER);
	cr_expect(ended);
	gone++;
	return survives;
}

/* Connects, with these handlers, and lets the loop go on when it runs next. */
static void connect_with(message_handlers *handlers)
{
	role.handlers = handlers;
	role.on_gone = note_end;
	role.on_connected = end_loop;
	exporter.fd = -1;
	connect_to_role();
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	role.loop.stopped = false;
}

/* Connects, sends a message, and connects once more while the first connection is still open: as if the first process hung, and was
 * started again. */
static int connect_twice(void)
{
	connect_with(count_resets);
	struct peer first = exporter;
	exporter.fd = -1;
	cr_assert_eq(peer_send(&first, MESSAGE_RESET_REQUEST, NULL, 0, NULL, 0), 0);
	connect_to_role();
	const int status = loop_run(&role.loop);
	peer_close(&first);
	return status;
}

Test(role, a_peer_that_was_started_again_replaces_the_old_one)
{
	survives = true;
	cr_expect_eq(connect_twice(), STATUS_DONE);
	cr_expect_eq(resets, 1, "what the old one has sent is handled");
	cr_expect_eq(gone, 1);
	cr_assert_geq(role.peers[ROLE_EXPORTER].fd, 0);
	cr_expect_eq(peer_send(&exporter, MESSAGE_RESET_REQUEST, NULL, 0, NULL, 0), 0);
}

Test(role, a_role_ends_that_does_not_go_on_without_the_old_one)
{
	connect_twice();
	cr_expect_eq(gone, 1);
	cr_expect_eq(role.peers[ROLE_EXPORTER].fd, -1);
	cr_expect(role.loop.stopped);
}

enum {
	SLOW_MESSAGES = 10,
	/* More than the last turns of a connection handle, with two in each. */
	MANY_SLOW_MESSAGES = 150,
	SLOW_MS = 6, /* for each of them */
};
static unsigned int most_at_once, resets_before;

/* Takes its time, by the clock and not by that of the CPU. */
static int count_slowly(void *context, struct message *message)
{
	nanosleep(&(struct timespec){.tv_nsec = SLOW_MS * NS_PER_MS}, NULL);
	return count_resets(context, message);
}

static void note_how_many(void *context, uint32_t events)
{
	(void)context;
	(void)events;
	most_at_once = resets - resets_before > most_at_once ? resets - resets_before : most_at_once;
	resets_before = resets;
	if (resets == SLOW_MESSAGES)
		loop_stop(&role.loop, STATUS_DONE);
}

static void connect_and_send_slow_messages(int count)
{
	connect_with(count_slowly);
	for (int i = 0; i < count; i++)
		cr_assert_eq(peer_send(&exporter, MESSAGE_RESET_REQUEST, NULL, 0, NULL, 0), 0);
}

Test(role, messages_that_take_long_let_others_have_their_turn)
{
	connect_and_send_slow_messages(SLOW_MESSAGES);
	loop_set_tick(&role.loop, 0, note_how_many, NULL);
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	cr_expect_leq(most_at_once, 2, "%u", most_at_once);
}

Test(role, all_that_the_old_one_has_sent_is_handled)
{
	survives = true;
	connect_and_send_slow_messages(MANY_SLOW_MESSAGES);
	struct peer first = exporter;
	exporter.fd = -1;
	connect_to_role();
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	cr_expect_eq(resets, MANY_SLOW_MESSAGES, "%u", resets);
	cr_expect_eq(gone, 1);
	peer_close(&first);
}

static uint32_t connected;

static void note_connected(void *context, enum role_id other)
{
	(void)context;
	connected |= ROLE_BIT(other);
}

/* As CONTROL, connects to the role that waits for it in role_meet(), in a child, and says that the exporter is there. */
static pid_t say_that_the_exporter_is_there(void)
{
	const pid_t child = fork();
	struct peer control = PEER_NONE;
	const struct msg_meet meet = {.roles = ROLE_BIT(ROLE_EXPORTER) | ROLE_BIT(ROLE_OPENER)};

	if (child)
		return child;
	alarm(10);
	if (peer_connect(&control, run_dir, ROLE_CONTROL, ROLE_WORKER, &role.uids, 5000) < 0 ||
	    peer_send(&control, MESSAGE_MEET, &meet, sizeof(meet), NULL, 0) < 0)
		_exit(1);
	pause();
	_exit(0);
}

/* The opener is not among the peers of the policy. */
Test(role, it_connects_to_the_peers_that_are_there)
{
	char path[256];

	close(role.listener);
	peer_close(&role.peers[ROLE_EXPORTER]);
	cr_assert_eq(loop_init(&role.loop), 0);
	role.on_connected = note_connected;
	role.uids.uid[ROLE_CONTROL] = getuid();
	snprintf(path, sizeof(path), "%s/%s", run_dir, role_names[ROLE_EXPORTER].directory);
	cr_assert_eq(mkdir(path, 0700), 0);
	const int listener = peer_listen(run_dir, ROLE_EXPORTER);
	const pid_t control = say_that_the_exporter_is_there();
	cr_expect_eq(role_meet(&role), STATUS_DONE);
	cr_expect_geq(role.peers[ROLE_EXPORTER].fd, 0);
	cr_expect_eq(role.peers[ROLE_OPENER].fd, -1);
	cr_expect_eq(role_watch_peers(&role), 0);
	cr_expect_eq(connected, ROLE_BIT(ROLE_EXPORTER));
	kill(control, SIGKILL);
	waitpid(control, NULL, 0);
	close(listener);
	snprintf(path, sizeof(path), "%s/%s/sock", run_dir, role_names[ROLE_EXPORTER].directory);
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

Test(role, a_peer_that_has_just_ended_is_left_out)
{
	close(role.listener);
	cr_assert_eq(loop_init(&role.loop), 0);
	role.uids.uid[ROLE_CONTROL] = getuid();
	const pid_t control = say_that_the_exporter_is_there();
	cr_expect_eq(role_meet(&role), STATUS_DONE);
	cr_expect_eq(role.peers[ROLE_EXPORTER].fd, -1);
	kill(control, SIGKILL);
	waitpid(control, NULL, 0);
}

static const struct sandbox_policy needy_policy = {.peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_EXPORTER),
						   .needs = ROLE_BIT(ROLE_EXPORTER)};

/* The successor of that peer does not look for this role: it would have ended with its predecessor. */
Test(role, a_role_does_not_start_without_a_peer_that_it_needs)
{
	close(role.listener);
	cr_assert_eq(loop_init(&role.loop), 0);
	role.policy = &needy_policy;
	role.uids.uid[ROLE_CONTROL] = getuid();
	const pid_t control = say_that_the_exporter_is_there();
	cr_expect_eq(role_meet(&role), STATUS_FAILED);
	cr_expect_eq(lines_with("cannot connect to another role, so this role ends"), 1);
	kill(control, SIGKILL);
	waitpid(control, NULL, 0);
}

Test(role, a_role_ends_with_a_peer_that_it_needs)
{
	role.policy = &needy_policy;
	survives = true;
	connect_with(count_resets);
	peer_close(&exporter);
	cr_expect_eq(loop_run(&role.loop), STATUS_DONE);
	cr_expect_eq(gone, 0);
	cr_expect(role.loop.stopped);
}

/* The connection stays in the queue of the kernel, so the loop would not wait any more. */
Test(role, a_role_that_has_no_descriptor_for_a_connection_ends)
{
	struct rlimit files;

	exporter.fd = -1;
	connect_to_role();
	const int next = fcntl(role.listener, F_DUPFD_CLOEXEC, 0);
	cr_assert(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = (rlim_t)next;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	cr_expect_eq(loop_run(&role.loop), STATUS_FAILED);
	cr_expect_eq(lines_with("cannot accept the connections of other roles, so this role ends: error=Too many open files"), 1);
}

static unsigned int ticks;

static void end_loop_at_last_refusal(void *context, uint32_t events)
{
	(void)context;
	(void)events;
	if (++ticks == 10)
		loop_stop(&role.loop, STATUS_DONE);
	else
		connect_to_role();
}

Test(role, connections_of_unexpected_processes_do_not_flood_the_log)
{
	exporter.fd = -1;
	role.uids.uid[ROLE_EXPORTER] = getuid() + 1;
	loop_set_tick(&role.loop, 1, end_loop_at_last_refusal, NULL);
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	cr_expect_eq(role.peers[ROLE_EXPORTER].fd, -1);
	cr_expect_eq(lines_with("refused a connection"), 1);
	/* More than a minute later. */
	role.refusal_logged_ns = 1;
	role.loop.stopped = false;
	ticks = 0;
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	cr_expect_eq(lines_with("refused a connection"), 1);
}

static void receive_as_exporter(void *context, uint32_t events)
{
	static struct message_buffer buffer;
	struct message message;

	(void)context;
	(void)events;
	while (peer_receive(&exporter, ROLE_READY, &buffer, &message) == 1)
		message_close(&message);
}

/* It was accepted because others waited. The sender was promised that it arrives. */
Test(role, a_role_ends_if_a_queued_message_is_too_large_for_the_socket)
{
	const int socket_bytes = 16384;
	static uint8_t batch[LIMIT_BATCH_BYTES];
	struct peer *peer = &role.peers[ROLE_EXPORTER];

	role.on_connected = end_loop;
	exporter.fd = -1;
	connect_to_role();
	cr_assert_eq(loop_run(&role.loop), STATUS_DONE);
	cr_assert_eq(setsockopt(peer->fd, SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof(socket_bytes)), 0);
	while (!peer->first)
		cr_assert_eq(peer_send(peer, MESSAGE_BATCH, batch, 8000, NULL, 0), 0);
	cr_assert_eq(peer_send(peer, MESSAGE_BATCH, batch, sizeof(batch), NULL, 0), 0);
	role.loop.stopped = false;
	loop_set_tick(&role.loop, 1, receive_as_exporter, NULL);
	cr_expect_eq(loop_run(&role.loop), STATUS_FAILED);
	cr_expect_eq(peer->fd, -1);
	cr_expect_eq(lines_with("cannot send a message; closed the connection"), 1);
}
