/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of peers: sending and queueing, the end of a connection, and the check of the peer's uid.
 * The check of messages has its own tests in test_message_check.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/peer.h"
#include "tests/unit/ipc/raw_link.h"

Test(peer, an_empty_socket_and_a_closed_connection_are_distinguished)
{
	struct link *l = link_new(ROLE_CONTROL, ROLE_LOADER);
	struct message message;

	cr_assert_eq(peer_receive(&l->peer, ROLE_READY, &l->buffer, &message), 0);
	cr_assert_eq(peer_receive_wait(&l->peer, ROLE_READY, &l->buffer, &message, 5), -ETIMEDOUT);
	close(l->raw);
	l->raw = -1;
	cr_assert_eq(peer_receive(&l->peer, ROLE_READY, &l->buffer, &message), -EPIPE);
	cr_assert_eq(peer_send(&l->peer, MESSAGE_STATUS, &(struct msg_status){0},
			       sizeof(struct msg_status), NULL, 0),
		     -EPIPE);
	cr_assert(l->peer.broken);
	cr_assert_eq(peer_send(&l->peer, MESSAGE_STATUS, &(struct msg_status){0},
			       sizeof(struct msg_status), NULL, 0),
		     -EPIPE);
	link_free(l);
}

Test(peer, no_connection_at_all)
{
	struct peer none = PEER_NONE;
	struct message_buffer *buffer = malloc(sizeof(*buffer));
	struct message message;

	cr_assert_eq(peer_receive(&none, ROLE_READY, buffer, &message), -EPIPE);
	cr_assert_eq(peer_send(&none, MESSAGE_START, NULL, 0, NULL, 0), -EPIPE);
	cr_assert_eq(peer_flush(&none), 0);
	peer_close(&none);
	free(buffer);
}

/* ---- Sending. ---- */

struct sender {
	struct peer from, to;
	struct message_buffer buffer;
	uint32_t next; /* number expected */
};

static struct sender *sender_new(enum role_id from, enum role_id to, int socket_bytes)
{
	struct sender *s = calloc(1, sizeof(*s));
	struct rlimit files;
	int pair[2];

	cr_assert(s && getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &files);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
		     0);
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof(socket_bytes));
	s->from = (struct peer){.fd = pair[0], .self = from, .other = to};
	s->to = (struct peer){.fd = pair[1], .self = to, .other = from};
	return s;
}

static void sender_free(struct sender *s)
{
	peer_close(&s->from);
	peer_close(&s->to);
	free(s);
}

static int send_number(struct sender *s, enum message_type type, uint32_t number, const int *fds,
		       unsigned int fd_count)
{
	return peer_send(&s->from, type, &(struct msg_id){.id = number}, sizeof(struct msg_id), fds,
			 fd_count);
}

/* Receives all messages in the socket, and checks their order. */
static void receive_numbers(struct sender *s)
{
	struct message message;

	while (peer_receive(&s->to, ROLE_READY, &s->buffer, &message) == 1) {
		struct msg_id id;

		cr_assert_eq(message.length, sizeof(id));
		memcpy(&id, message.payload, sizeof(id));
		cr_assert_eq(id.id, s->next, "%u instead of %u", id.id, s->next);
		s->next++;
		cr_assert_eq(message.fd_count, message.type == MESSAGE_SIDEBAND ? 1 : 0);
		message_close(&message);
	}
}

Test(peer, messages_that_the_table_does_not_allow_are_not_sent)
{
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const int fds[MESSAGE_FDS_MAX] = {0};
	struct message message;
	static uint8_t bytes[1 << 20];

	cr_assert_eq(peer_send(&s->from, MESSAGE_SLAB_REQUEST, NULL, 0, NULL, 0), -EINVAL,
		     "not its own");
	cr_assert_eq(
	    peer_send(&s->from, MESSAGE_WORKER_MAPS, bytes, sizeof(struct msg_maps), fds, 3),
	    -EINVAL, "to another");
	cr_assert_eq(peer_send(&s->from, MESSAGE_SLAB, bytes, 7, NULL, 0), -EINVAL);
	cr_assert_eq(peer_send(&s->from, MESSAGE_SLAB, bytes, 9, NULL, 0), -EINVAL);
	cr_assert_eq(peer_send(&s->from, MESSAGE_SLAB, bytes, sizeof(bytes), NULL, 0), -EINVAL);
	cr_assert_eq(peer_send(&s->from, MESSAGE_SLAB, bytes, 8, fds, 2), -EINVAL);
	cr_assert_eq(peer_send(&s->from, MESSAGE_SIDEBAND, bytes, 8, NULL, 0), -EINVAL);
	cr_assert_eq(peer_send(&s->from, MESSAGE_NONE, NULL, 0, NULL, 0), -EINVAL);
	cr_assert_eq(peer_send(&s->from, MESSAGE_TYPE_COUNT, NULL, 0, NULL, 0), -EINVAL);
	cr_assert_eq(peer_receive(&s->to, ROLE_READY, &s->buffer, &message), 0, "nothing was sent");
	sender_free(s);
}

Test(peer, queue_keeps_the_order)
{
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const uint32_t count = 5000;

	for (uint32_t i = 0; i < count; i++) {
		cr_assert_eq(send_number(s, MESSAGE_SLAB, i, NULL, 0), 0);
		/* When the socket has room again, the next message must not overtake those in the
		 * queue. */
		if (i == count / 2)
			receive_numbers(s);
	}
	cr_assert(s->from.first, "the socket has taken all: nothing was tested");
	cr_assert_eq(peer_flush(&s->from), -EAGAIN);
	while (s->next < count) {
		receive_numbers(s);
		peer_flush(&s->from);
	}
	cr_assert_null(s->from.first);
	cr_assert_null(s->from.last);
	cr_assert_eq(s->from.queued_bytes, 0);
	cr_assert_eq(peer_flush(&s->from), 0);
	cr_assert_eq(send_number(s, MESSAGE_SLAB, count, NULL, 0), 0);
	receive_numbers(s);
	cr_assert_eq(s->next, count + 1);
	sender_free(s);
}

Test(peer, queue_of_descriptors_is_bounded)
{
	const unsigned int before = count_fds();
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const int fd = s->from.fd;
	uint32_t sent = 0;
	int r;

	while ((r = send_number(s, MESSAGE_SIDEBAND, sent, &fd, 1)) == 0)
		cr_assert_lt(++sent, 100000);
	cr_assert_eq(r, -ENOBUFS);
	cr_assert_eq(s->from.queued_fds, LIMIT_QUEUE_FDS);
	cr_assert_eq(send_number(s, MESSAGE_SIDEBAND, sent, &fd, 1), -ENOBUFS, "and again");
	cr_assert_eq(send_number(s, MESSAGE_SLAB, sent, NULL, 0), 0,
		     "one without descriptors still fits");
	while (s->next < sent) {
		receive_numbers(s);
		cr_assert_not(s->from.broken);
		if (s->from.queued_fds == 0)
			break;
		peer_flush(&s->from);
	}
	cr_assert_eq(s->from.queued_fds, 0);
	sender_free(s);
	cr_assert_eq(count_fds(), before);
}

Test(peer, queue_of_bytes_is_bounded)
{
	struct sender *s = sender_new(ROLE_WORKER, ROLE_EXPORTER, 200000);
	static uint8_t batch[LIMIT_BATCH_BYTES];
	struct message message;
	uint32_t sent = 0, received = 0;
	int r;

	while ((r = peer_send(&s->from, MESSAGE_BATCH, memcpy(batch, &sent, sizeof(sent)),
			      sizeof(batch), NULL, 0)) == 0)
		cr_assert_lt(++sent, 10000);
	cr_assert_eq(r, -ENOBUFS);
	cr_assert_leq(s->from.queued_bytes, LIMIT_QUEUE_BYTES);
	cr_assert_gt(s->from.queued_bytes, LIMIT_QUEUE_BYTES - 2 * sizeof(batch));
	for (;;) {
		while ((r = peer_receive(&s->to, ROLE_READY, &s->buffer, &message)) == 1) {
			cr_assert_eq(memcmp(message.payload, &received, sizeof(received)), 0);
			received++;
		}
		cr_assert_eq(r, 0);
		if (!s->from.first)
			break;
		peer_flush(&s->from);
	}
	cr_assert_eq(received, sent);
	sender_free(s);
}

/* A packet that is too large for the socket, but was accepted because others waited. */
Test(peer, a_queued_message_that_cannot_be_sent_breaks_the_connection)
{
	struct sender *s = sender_new(ROLE_WORKER, ROLE_EXPORTER, 16384);
	static uint8_t batch[LIMIT_BATCH_BYTES];
	struct message message;
	uint32_t sent = 0, received = 0;
	int r;

	cr_assert_eq(peer_send(&s->from, MESSAGE_BATCH, batch, sizeof(batch), NULL, 0), -EMSGSIZE);
	for (; !s->from.first; sent++)
		cr_assert_eq(peer_send(&s->from, MESSAGE_BATCH, batch, 8000, NULL, 0), 0);
	cr_assert_eq(peer_send(&s->from, MESSAGE_BATCH, batch, sizeof(batch), NULL, 0), 0);
	cr_assert_eq(peer_send(&s->from, MESSAGE_BATCH, batch, 8000, NULL, 0), 0);
	while ((r = peer_flush(&s->from)) == -EAGAIN) {
		cr_assert_eq(peer_receive(&s->to, ROLE_READY, &s->buffer, &message), 1);
		received++;
	}
	cr_assert_eq(r, -EMSGSIZE);
	cr_assert_null(s->from.first);
	cr_assert_eq(s->from.queued_bytes, 0);
	cr_assert_eq(peer_send(&s->from, MESSAGE_BATCH, batch, 8000, NULL, 0), -EPIPE);
	while (peer_receive(&s->to, ROLE_READY, &s->buffer, &message) == 1)
		received++;
	cr_assert_eq(received, sent, "the last one must not overtake the one that was lost");
	sender_free(s);
}

Test(peer, the_queue_is_dropped_when_the_peer_ends)
{
	const unsigned int before = count_fds();
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const int fd = s->from.fd;

	while (s->from.queued_fds < 20)
		cr_assert_eq(send_number(s, MESSAGE_SIDEBAND, 0, &fd, 1), 0);
	peer_close(&s->to);
	cr_assert_eq(peer_flush(&s->from), 0);
	cr_assert(s->from.broken);
	cr_assert_eq(s->from.queued_fds, 0);
	cr_assert_eq(s->from.queued_bytes, 0);
	cr_assert_eq(send_number(s, MESSAGE_SLAB, 0, NULL, 0), -EPIPE);
	sender_free(s);
	cr_assert_eq(count_fds(), before);
}

Test(peer, closing_a_peer_closes_queued_descriptors)
{
	const unsigned int before = count_fds();
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const int fd = s->from.fd;

	while (s->from.queued_fds < 20)
		cr_assert_eq(send_number(s, MESSAGE_SIDEBAND, 0, &fd, 1), 0);
	sender_free(s);
	cr_assert_eq(count_fds(), before);
}

struct drain {
	struct loop loop;
	struct sender *sender;
	uint32_t count;
};

static void drain_sender(void *context, uint32_t events)
{
	struct drain *d = context;

	if (events & EPOLLOUT)
		peer_flush(&d->sender->from);
}

static void drain_receiver(void *context, uint32_t events)
{
	struct drain *d = context;

	(void)events;
	receive_numbers(d->sender);
	if (d->sender->next == d->count)
		loop_stop(&d->loop, 7);
}

Test(peer, loop_sends_what_is_queued, .timeout = 20)
{
	struct drain *d = calloc(1, sizeof(*d));

	cr_assert_eq(loop_init(&d->loop), 0);
	d->sender = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	d->count = 3000;
	/* Half queued before the loop knows of the peer, half after. */
	for (uint32_t i = 0; i < d->count; i++) {
		cr_assert_eq(send_number(d->sender, MESSAGE_SLAB, i, NULL, 0), 0);
		if (i == d->count / 2) {
			cr_assert_eq(peer_watch(&d->sender->from, &d->loop, drain_sender, d), 0);
			cr_assert_eq(peer_watch(&d->sender->to, &d->loop, drain_receiver, d), 0);
		}
	}
	cr_assert(d->sender->from.first);
	cr_assert_eq(loop_run(&d->loop), 7);
	cr_assert_null(d->sender->from.first);
	sender_free(d->sender);
	loop_fini(&d->loop);
	free(d);
}

/* ---- The uid at the other end. ---- */

enum {
	UID_MANAGER = 61192,
	UID_WORKER = 61194,
	UID_UNEXPECTED = 61199
};

static const struct peer_uids test_uids = {
    .uid = {[ROLE_CONTROL] = 0,
	    [ROLE_LOADER] = 61191,
	    [ROLE_MANAGER] = UID_MANAGER,
	    [ROLE_OPENER] = 61193,
	    [ROLE_WORKER] = UID_WORKER,
	    [ROLE_EXPORTER] = 61195},
};

static char run_dir[64];

static void run_dir_init(void)
{
	char path[1024];

	if (geteuid() != 0)
		cr_skip_test("other uids need root");
	snprintf(run_dir, sizeof(run_dir), "/tmp/bulkhead-peer-XXXXXX");
	cr_assert(mkdtemp(run_dir) && chmod(run_dir, 0755) == 0);
	for (int role = 0; role < ROLE_COUNT; role++) {
		snprintf(path, sizeof(path), "%s/%s", run_dir, role_names[role].directory);
		cr_assert(mkdir(path, 0777) == 0 && chmod(path, 0777) == 0);
	}
}

static void run_dir_fini(void)
{
	char path[1024];

	if (!run_dir[0])
		return;
	for (int role = 0; role < ROLE_COUNT; role++) {
		snprintf(path, sizeof(path), "%s/%s/sock", run_dir, role_names[role].directory);
		unlink(path);
		snprintf(path, sizeof(path), "%s/%s", run_dir, role_names[role].directory);
		rmdir(path);
	}
	rmdir(run_dir);
}

/* Starts a process with `uid` that connects to the loader. It exits with 1 when its connection is
 * closed, and with 0 when it receives a message. */
static pid_t visitor(uid_t uid)
{
	pid_t child = fork();

	if (child == 0) {
		struct message_buffer *buffer = malloc(sizeof(*buffer));
		struct message message;
		struct peer peer = PEER_NONE;

		alarm(10);
		if (setgid(uid) || setuid(uid) ||
		    peer_connect(&peer, run_dir, ROLE_MANAGER, ROLE_LOADER,
				 &(struct peer_uids){.uid = {[ROLE_LOADER] = 0}}, 2000) < 0)
			_exit(2);
		_exit(peer_receive_wait(&peer, ROLE_READY, buffer, &message, 5000) == 1 ? 0 : 1);
	}
	return child;
}

static int ends(pid_t child)
{
	int status;

	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static uid_t refused[4];
static unsigned int refused_count;

static void on_refused(void *context, uid_t uid)
{
	(void)context;
	cr_assert_lt(refused_count, 4);
	refused[refused_count++] = uid;
}

static struct peer_listener no_peers(struct peer peers[ROLE_COUNT])
{
	for (int role = 0; role < ROLE_COUNT; role++)
		peers[role] = (struct peer)PEER_NONE;
	return (struct peer_listener){.fd = peer_listen(run_dir, ROLE_LOADER),
				      .self = ROLE_LOADER,
				      .uids = &test_uids,
				      .on_refused = on_refused};
}

Test(peer, connections_of_unexpected_peers_are_closed, .init = run_dir_init, .fini = run_dir_fini,
     .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	const struct peer_listener listener = no_peers(peers);

	cr_assert_geq(listener.fd, 0);
	pid_t unexpected = visitor(UID_UNEXPECTED);
	pid_t not_expected = visitor(UID_WORKER);
	cr_assert_eq(peer_accept_all(&listener, ROLE_BIT(ROLE_MANAGER), peers, 200), -ETIMEDOUT);
	cr_assert_eq(ends(unexpected), 1);
	cr_assert_eq(ends(not_expected), 1);
	cr_assert_eq(refused_count, 2);
	cr_expect_eq(refused[0] + refused[1], UID_UNEXPECTED + UID_WORKER, "in any order");
	for (int role = 0; role < ROLE_COUNT; role++)
		cr_assert_eq(peers[role].fd, -1);
	close(listener.fd);
}

/* These processes have the right uids, and no label, or one that is not that of a role. */
Test(peer, connections_of_peers_outside_of_their_domains_are_closed, .init = run_dir_init,
     .fini = run_dir_fini, .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	struct peer_listener listener = no_peers(peers);
	struct peer_uids uids = test_uids;
	struct peer peer;

	uids.by_domain = true;
	listener.uids = &uids;
	cr_assert_geq(listener.fd, 0);
	const pid_t manager = visitor(UID_MANAGER);
	cr_expect_eq(peer_accept_all(&listener, ROLE_BIT(ROLE_MANAGER), peers, 200), -ETIMEDOUT);
	cr_expect_eq(ends(manager), 1);
	cr_expect_eq(refused_count, 1);
	uids.uid[ROLE_LOADER] = getuid();
	cr_expect_eq(peer_connect(&peer, run_dir, ROLE_MANAGER, ROLE_LOADER, &uids, 1000), -EACCES);
	close(listener.fd);
}

Test(peer, waiting_ends_when_the_run_directory_is_removed, .init = run_dir_init,
     .fini = run_dir_fini, .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	struct peer peer;
	const struct peer_listener listener = no_peers(peers);

	cr_assert_geq(listener.fd, 0);
	run_dir_fini();
	cr_assert_eq(peer_accept_all(&listener, ROLE_BIT(ROLE_MANAGER), peers, 600000), -EPIPE);
	cr_assert_eq(peer_connect(&peer, run_dir, ROLE_LOADER, ROLE_MANAGER, &test_uids, 600000),
		     -EPIPE);
	close(listener.fd);
}

Test(peer, an_expected_peer_is_accepted_once, .init = run_dir_init, .fini = run_dir_fini,
     .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	const struct peer_listener listener = no_peers(peers);

	pid_t manager = visitor(UID_MANAGER);
	cr_assert_eq(peer_accept_all(&listener, ROLE_BIT(ROLE_MANAGER), peers, 5000), 0);
	cr_assert_geq(peers[ROLE_MANAGER].fd, 0);
	cr_assert_eq(peers[ROLE_MANAGER].self, ROLE_LOADER);
	cr_assert_eq(peers[ROLE_MANAGER].other, ROLE_MANAGER);
	/* A second one under the same uid does not take its place. */
	const int first = peers[ROLE_MANAGER].fd;
	pid_t again = visitor(UID_MANAGER);
	cr_assert_eq(
	    peer_accept_all(&listener, ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_WORKER), peers, 200),
	    -ETIMEDOUT);
	cr_assert_eq(ends(again), 1);
	cr_expect_eq(refused_count, 1);
	cr_expect_eq(refused[0], UID_MANAGER);
	cr_assert_eq(peers[ROLE_MANAGER].fd, first);
	cr_assert_eq(
	    peer_send(&peers[ROLE_MANAGER], MESSAGE_SLAB, &(struct msg_id){1, 0}, 8, NULL, 0), 0);
	cr_assert_eq(ends(manager), 0);
	peer_close(&peers[ROLE_MANAGER]);
	close(listener.fd);
}

/* A process that listens in the place of a role under another uid gets no connection. */
Test(peer, a_listener_with_an_unexpected_uid_is_refused, .init = run_dir_init, .fini = run_dir_fini,
     .timeout = 30)
{
	int ready[2];
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid_t impostor = fork();
	if (impostor == 0) {
		alarm(10);
		if (setgid(UID_UNEXPECTED) || setuid(UID_UNEXPECTED) ||
		    peer_listen(run_dir, ROLE_LOADER) < 0)
			_exit(2);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	struct peer peer = PEER_NONE;
	cr_assert_eq(peer_connect(&peer, run_dir, ROLE_MANAGER, ROLE_LOADER, &test_uids, 1000),
		     -EACCES);
	cr_assert_eq(peer.fd, -1);
	kill(impostor, SIGKILL);
	ends(impostor);
}

Test(peer, nobody_listens)
{
	struct peer peer = PEER_NONE;
	char long_dir[200];

	cr_assert_eq(peer_connect(&peer, "/tmp", ROLE_MANAGER, ROLE_LOADER, &test_uids, 10),
		     -ETIMEDOUT);
	memset(long_dir, 'x', sizeof(long_dir) - 1);
	long_dir[sizeof(long_dir) - 1] = 0;
	cr_assert_eq(peer_connect(&peer, long_dir, ROLE_MANAGER, ROLE_LOADER, &test_uids, 10),
		     -ENAMETOOLONG);
	cr_assert_eq(peer_listen(long_dir, ROLE_LOADER), -ENAMETOOLONG);
	cr_assert_lt(peer_listen("/nowhere", ROLE_LOADER), 0);
}

Test(peer, uids_parse)
{
	static const char *const bad[] = {
	    "",
	    "0",
	    "0,1,2,3,4",
	    "0,1,2,3,4,",
	    "0,1,2,3,4,5,",
	    "0,1,2,3,4,5,6",
	    ",1,2,3,4,5",
	    "0,,2,3,4,5",
	    "0,1,2,3,4,5 ",
	    "0;1;2;3;4;5",
	    "0,1,2,3,4,x",
	    "0,1,2,3,4,0x5",
	    "0,1,2,3,4,-1",
	    "0,1,2,3,4,4294967295",
	    "0,1,2,3,4,4294967296",
	    "0,1,2,3,4,18446744073709551616",
	};
	struct peer_uids uids = {.by_domain = true};

	cr_assert_eq(peer_uids_parse("0,61184,61185,61186,61187,4294967294", &uids), 0);
	cr_expect_not(uids.by_domain);
	cr_assert_eq(uids.uid[ROLE_CONTROL], 0);
	cr_assert_eq(uids.uid[ROLE_LOADER], 61184);
	cr_assert_eq(uids.uid[ROLE_EXPORTER], 4294967294u);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uids.uid[0] = 77;
		cr_expect_eq(peer_uids_parse(bad[i], &uids), -EINVAL, "'%s'", bad[i]);
		cr_expect_eq(uids.uid[0], 77, "outputs are untouched on failure");
	}
}
