/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol, tried from both ends. What may be said is generated from messages.def; so is what
 * may not. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <dirent.h>
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

struct rule {
	const char *name;
	uint32_t from, to, least, most;
	unsigned int fds_least, fds_most;
};

static const struct rule rules[MESSAGE_TYPE_COUNT] = {
#define TO(role) ROLE_BIT(ROLE_##role)
#define FROM_CLI ROLE_BIT(ROLE_CLI)
#define FROM_LOADER ROLE_BIT(ROLE_LOADER)
#define FROM_MANAGER ROLE_BIT(ROLE_MANAGER)
#define FROM_OPENER ROLE_BIT(ROLE_OPENER)
#define FROM_WORKER ROLE_BIT(ROLE_WORKER)
#define FROM_EXPORTER ROLE_BIT(ROLE_EXPORTER)
#define FROM_ANY_ROLE (((1u << ROLE_COUNT) - 1) & ~ROLE_BIT(ROLE_CLI))
#define MESSAGE(name, from, to, least, most, fds_least, fds_most)                                  \
	[MESSAGE_##name] = {#name, FROM_##from, to, least, most, fds_least, fds_most},
#include "ipc/messages.def"
#undef MESSAGE
};

enum {
	FDS_TOO_MANY = MESSAGE_FDS_MAX + 4
};

/* Both ends: what a hostile peer writes to, and what the role reads from. */
struct link {
	int raw;
	struct peer peer;
	struct message_buffer buffer;
};

static unsigned int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	cr_assert(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static struct link *link_new(enum role_id from, enum role_id to)
{
	struct link *l = calloc(1, sizeof(*l));
	int pair[2];

	cr_assert(l &&
		  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	l->raw = pair[0];
	l->peer = (struct peer){.fd = pair[1], .self = to, .other = from};
	return l;
}

static void link_free(struct link *l)
{
	if (l->raw >= 0)
		close(l->raw);
	peer_close(&l->peer);
	free(l);
}

/* `bytes` as they are, with `fd_count` descriptors. */
static void raw_send(int fd, const void *bytes, size_t length, unsigned int fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * FDS_TOO_MANY)];
	} control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd_count) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		for (unsigned int i = 0; i < fd_count; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	}
	cr_assert_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)length, "%s", strerror(errno));
}

/* One packet: what peer_receive says of it; whatever it says, no descriptor may be left over. */
static int say(enum role_id from, enum role_id to, uint32_t type, uint32_t header_length, size_t length,
	       unsigned int fd_count)
{
	static uint8_t bytes[sizeof(struct msg_header) + MESSAGE_BYTES_MAX + 64];
	const struct msg_header header = {.type = type, .length = header_length};
	const unsigned int before = count_fds();
	struct link *l = link_new(from, to);
	struct message message;

	memcpy(bytes, &header, sizeof(header));
	raw_send(l->raw, bytes, sizeof(header) + length, fd_count);
	int r = peer_receive(&l->peer, &l->buffer, &message);
	if (r == 1) {
		cr_assert_eq(message.type, type);
		cr_assert_eq(message.length, length);
		cr_assert_eq(message.fd_count, fd_count);
		cr_assert_eq((uintptr_t)message.payload % 8, 0);
		for (unsigned int i = 0; i < fd_count; i++)
			cr_assert_eq(fcntl(message.fds[i], F_GETFD), FD_CLOEXEC);
		message_close(&message);
	}
	cr_assert_eq(message.fd_count, 0);
	link_free(l);
	cr_assert_eq(count_fds(), before, "descriptors left over: %s, length %zu, %u descriptors",
		     type < MESSAGE_TYPE_COUNT ? rules[type].name : "unknown", length, fd_count);
	return r;
}

static int say_well(enum role_id from, enum role_id to, uint32_t type, size_t length,
		    unsigned int fd_count)
{
	return say(from, to, type, (uint32_t)length, length, fd_count);
}

/* Calls `fn` for each message, each sender and each receiver that it has. */
static void each_route(void (*fn)(uint32_t type, const struct rule *rule, enum role_id from,
				  enum role_id to))
{
	for (uint32_t type = 1; type < MESSAGE_TYPE_COUNT; type++) {
		for (int from = 0; from < ROLE_COUNT; from++) {
			for (int to = 0; to < ROLE_COUNT; to++) {
				if ((rules[type].from & ROLE_BIT(from)) &&
				    (rules[type].to & ROLE_BIT(to)))
					fn(type, &rules[type], (enum role_id)from, (enum role_id)to);
			}
		}
	}
}

static void bounds_pass(uint32_t type, const struct rule *r, enum role_id from, enum role_id to)
{
	cr_expect_eq(say_well(from, to, type, r->least, r->fds_least), 1, "%s least", r->name);
	cr_expect_eq(say_well(from, to, type, r->most, r->fds_most), 1, "%s most", r->name);
}

Test(peer, bounds_of_each_message_pass)
{
	each_route(bounds_pass);
}

static void beyond_bounds(uint32_t type, const struct rule *r, enum role_id from, enum role_id to)
{
	if (r->least)
		cr_expect_eq(say_well(from, to, type, r->least - 1, r->fds_least), -EPROTO,
			     "%s shorter", r->name);
	cr_expect_eq(say_well(from, to, type, r->most + 1, r->fds_least), -EPROTO, "%s longer",
		     r->name);
	cr_expect_eq(say_well(from, to, type, r->most + 1, r->fds_most), -EPROTO,
		     "%s longer, with descriptors", r->name);
	if (r->fds_least)
		cr_expect_eq(say_well(from, to, type, r->least, r->fds_least - 1), -EPROTO,
			     "%s one fd fewer", r->name);
	cr_expect_eq(say_well(from, to, type, r->least, r->fds_most + 1), -EPROTO, "%s one fd more",
		     r->name);
	cr_expect_eq(say_well(from, to, type, r->least, FDS_TOO_MANY), -EPROTO, "%s many fds",
		     r->name);
}

Test(peer, beyond_the_bounds_nothing_passes)
{
	each_route(beyond_bounds);
}

static void bad_header(uint32_t type, const struct rule *r, enum role_id from, enum role_id to)
{
	cr_expect_eq(say(from, to, type, r->least + 1, r->least, r->fds_least), -EPROTO,
		     "%s says more than it has", r->name);
	cr_expect_eq(say(from, to, type, r->least, r->least + 1, r->fds_least), -EPROTO,
		     "%s has more than it says", r->name);
	cr_expect_eq(say(from, to, type, UINT32_MAX, r->least, r->fds_least), -EPROTO,
		     "%s says far more", r->name);
	cr_expect_eq(say(from, to, type, (uint32_t)-8, r->least, r->fds_least), -EPROTO, "%s wraps",
		     r->name);
	cr_expect_eq(say(from, to, type | 0x10000, r->least, r->least, r->fds_least), -EPROTO,
		     "%s, high bit", r->name);
}

Test(peer, header_that_does_not_fit_the_packet)
{
	each_route(bad_header);
}

/* Who may say what to whom, all of it. */
Test(peer, only_the_table_s_routes)
{
	unsigned int allowed = 0;

	for (uint32_t type = 1; type < MESSAGE_TYPE_COUNT; type++) {
		const struct rule *r = &rules[type];

		for (int from = 0; from < ROLE_COUNT; from++) {
			for (int to = 0; to < ROLE_COUNT; to++) {
				const bool may =
				    (r->from & ROLE_BIT(from)) && (r->to & ROLE_BIT(to));

				allowed += may;
				cr_expect_eq(say_well((enum role_id)from, (enum role_id)to, type,
						      r->least, r->fds_least),
					     may ? 1 : -EPROTO, "%s from %s to %s", r->name,
					     role_names[from].process, role_names[to].process);
			}
		}
	}
	cr_assert_gt(allowed, MESSAGE_TYPE_COUNT - 2);
}

Test(peer, unknown_types)
{
	const uint32_t types[] = {MESSAGE_NONE, MESSAGE_TYPE_COUNT, MESSAGE_TYPE_COUNT + 1,
				  0x7fffffff,	0x80000000,	    UINT32_MAX};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		cr_expect_eq(say_well(ROLE_CLI, ROLE_LOADER, types[i], 0, 0), -EPROTO);
		cr_expect_eq(say_well(ROLE_CLI, ROLE_LOADER, types[i], 8, 3), -EPROTO);
	}
}

/* Less than a header, with descriptors and without. */
Test(peer, truncated_headers)
{
	const struct msg_header header = {.type = MESSAGE_START, .length = 0};

	for (size_t length = 1; length < sizeof(header); length++) {
		for (unsigned int fds = 0; fds <= FDS_TOO_MANY; fds += FDS_TOO_MANY / 2) {
			const unsigned int before = count_fds();
			struct link *l = link_new(ROLE_CLI, ROLE_LOADER);
			struct message message;

			raw_send(l->raw, &header, length, fds);
			cr_expect_eq(peer_receive(&l->peer, &l->buffer, &message), -EPROTO);
			link_free(l);
			cr_expect_eq(count_fds(), before, "%zu bytes, %u descriptors", length, fds);
		}
	}
}

/* The same as a peer that is gone, as far as a reader can tell; what came with it must not stay. */
Test(peer, empty_packet)
{
	for (unsigned int fds = 0; fds <= FDS_TOO_MANY; fds += FDS_TOO_MANY / 2) {
		const unsigned int before = count_fds();
		struct link *l = link_new(ROLE_CLI, ROLE_LOADER);
		struct message message;

		raw_send(l->raw, "", 0, fds);
		int r = peer_receive(&l->peer, &l->buffer, &message);
		cr_expect(r == -EPROTO || r == -EPIPE, "%d", r);
		link_free(l);
		cr_expect_eq(count_fds(), before, "%u descriptors of an empty packet left over",
			     fds);
	}
}

Test(peer, larger_than_any_message)
{
	static uint8_t bytes[MESSAGE_BYTES_MAX + 4096];
	const struct msg_header header = {.type = MESSAGE_BATCH,
					  .length = sizeof(bytes) - sizeof(header)};
	const unsigned int before = count_fds();
	struct link *l = link_new(ROLE_WORKER, ROLE_EXPORTER);
	struct message message;

	memcpy(bytes, &header, sizeof(header));
	raw_send(l->raw, bytes, sizeof(bytes), 2);
	cr_assert_eq(peer_receive(&l->peer, &l->buffer, &message), -EPROTO);
	link_free(l);
	cr_assert_eq(count_fds(), before);
}

Test(peer, nothing_there_and_peer_gone)
{
	struct link *l = link_new(ROLE_CLI, ROLE_LOADER);
	struct message message;

	cr_assert_eq(peer_receive(&l->peer, &l->buffer, &message), 0);
	cr_assert_eq(peer_receive_wait(&l->peer, &l->buffer, &message, 5), -ETIMEDOUT);
	close(l->raw);
	l->raw = -1;
	cr_assert_eq(peer_receive(&l->peer, &l->buffer, &message), -EPIPE);
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

	cr_assert_eq(peer_receive(&none, buffer, &message), -EPIPE);
	cr_assert_eq(peer_send(&none, MESSAGE_START, NULL, 0, NULL, 0), -EPIPE);
	cr_assert(peer_flush(&none));
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
	return peer_send(&s->from, type, &(struct msg_number){.number = number},
			 sizeof(struct msg_number), fds, fd_count);
}

/* All that is in the socket, in order. */
static void receive_numbers(struct sender *s)
{
	struct message message;

	while (peer_receive(&s->to, &s->buffer, &message) == 1) {
		struct msg_number number;

		cr_assert_eq(message.length, sizeof(number));
		memcpy(&number, message.payload, sizeof(number));
		cr_assert_eq(number.number, s->next, "%u instead of %u", number.number, s->next);
		s->next++;
		cr_assert_eq(message.fd_count, message.type == MESSAGE_SIDEBAND ? 1 : 0);
		message_close(&message);
	}
}

Test(peer, sender_is_held_to_the_table)
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
	cr_assert_eq(peer_receive(&s->to, &s->buffer, &message), 0, "nothing was sent");
	sender_free(s);
}

Test(peer, queue_keeps_the_order)
{
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const uint32_t count = 5000;

	for (uint32_t i = 0; i < count; i++) {
		cr_assert_eq(send_number(s, MESSAGE_SLAB, i, NULL, 0), 0);
		/* A socket with room again must not let the next one overtake those that wait. */
		if (i == count / 2)
			receive_numbers(s);
	}
	cr_assert(s->from.first, "the socket has taken all: nothing was tested");
	cr_assert_eq(peer_flush(&s->from), false);
	while (s->next < count) {
		receive_numbers(s);
		peer_flush(&s->from);
	}
	cr_assert_null(s->from.first);
	cr_assert_null(s->from.last);
	cr_assert_eq(s->from.queued_bytes, 0);
	cr_assert(peer_flush(&s->from));
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
		while ((r = peer_receive(&s->to, &s->buffer, &message)) == 1) {
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

Test(peer, end_of_a_peer_empties_the_queue)
{
	const unsigned int before = count_fds();
	struct sender *s = sender_new(ROLE_LOADER, ROLE_MANAGER, 16384);
	const int fd = s->from.fd;

	while (s->from.queued_fds < 20)
		cr_assert_eq(send_number(s, MESSAGE_SIDEBAND, 0, &fd, 1), 0);
	peer_close(&s->to);
	cr_assert(peer_flush(&s->from));
	cr_assert(s->from.broken);
	cr_assert_eq(s->from.queued_fds, 0);
	cr_assert_eq(s->from.queued_bytes, 0);
	cr_assert_eq(send_number(s, MESSAGE_SLAB, 0, NULL, 0), -EPIPE);
	sender_free(s);
	cr_assert_eq(count_fds(), before);
}

Test(peer, close_with_a_queue_leaves_nothing)
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

/* ---- Who is at the other end. ---- */

enum {
	UID_MANAGER = 61192,
	UID_WORKER = 61194,
	UID_STRANGER = 61199
};

static const struct peer_uids test_uids = {
    .uid = {[ROLE_CLI] = 0,
	    [ROLE_LOADER] = 61191,
	    [ROLE_MANAGER] = UID_MANAGER,
	    [ROLE_OPENER] = 61193,
	    [ROLE_WORKER] = UID_WORKER,
	    [ROLE_EXPORTER] = 61195},
};

static char run_dir[64];

static void run_dir_init(void)
{
	char path[128];

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
	char path[128];

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

/* A process with `uid` that connects to the loader, and exits with 1 once it is turned away, 0 once
 * it is told something. */
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
		_exit(peer_receive_wait(&peer, buffer, &message, 5000) == 1 ? 0 : 1);
	}
	return child;
}

static int ends(pid_t child)
{
	int status;

	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int no_peers(struct peer peers[ROLE_COUNT])
{
	for (int role = 0; role < ROLE_COUNT; role++)
		peers[role] = (struct peer)PEER_NONE;
	return peer_listen(run_dir, ROLE_LOADER);
}

Test(peer, strangers_are_turned_away, .init = run_dir_init, .fini = run_dir_fini, .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	const int listener = no_peers(peers);

	cr_assert_geq(listener, 0);
	cr_redirect_stderr();
	pid_t stranger = visitor(UID_STRANGER);
	pid_t not_expected = visitor(UID_WORKER);
	cr_assert_eq(
	    peer_accept_all(listener, ROLE_LOADER, ROLE_BIT(ROLE_MANAGER), &test_uids, peers, 200),
	    -ETIMEDOUT);
	cr_assert_eq(ends(stranger), 1);
	cr_assert_eq(ends(not_expected), 1);
	for (int role = 0; role < ROLE_COUNT; role++)
		cr_assert_eq(peers[role].fd, -1);
	close(listener);
}

Test(peer, nobody_waits_in_a_directory_that_is_gone, .init = run_dir_init, .fini = run_dir_fini,
     .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	struct peer peer;
	const int listener = no_peers(peers);

	cr_assert_geq(listener, 0);
	run_dir_fini();
	cr_assert_eq(peer_accept_all(listener, ROLE_LOADER, ROLE_BIT(ROLE_MANAGER), &test_uids,
				     peers, 600000),
		     -EPIPE);
	cr_assert_eq(peer_connect(&peer, run_dir, ROLE_LOADER, ROLE_MANAGER, &test_uids, 600000),
		     -EPIPE);
	close(listener);
}

Test(peer, the_one_expected_gets_in_once, .init = run_dir_init, .fini = run_dir_fini, .timeout = 30)
{
	struct peer peers[ROLE_COUNT];
	const int listener = no_peers(peers);

	cr_redirect_stderr();
	pid_t manager = visitor(UID_MANAGER);
	cr_assert_eq(
	    peer_accept_all(listener, ROLE_LOADER, ROLE_BIT(ROLE_MANAGER), &test_uids, peers, 5000),
	    0);
	cr_assert_geq(peers[ROLE_MANAGER].fd, 0);
	cr_assert_eq(peers[ROLE_MANAGER].self, ROLE_LOADER);
	cr_assert_eq(peers[ROLE_MANAGER].other, ROLE_MANAGER);
	/* A second one under the same uid does not take its place. */
	const int first = peers[ROLE_MANAGER].fd;
	pid_t again = visitor(UID_MANAGER);
	cr_assert_eq(peer_accept_all(listener, ROLE_LOADER,
				     ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_WORKER), &test_uids,
				     peers, 200),
		     -ETIMEDOUT);
	cr_assert_eq(ends(again), 1);
	cr_assert_eq(peers[ROLE_MANAGER].fd, first);
	cr_assert_eq(
	    peer_send(&peers[ROLE_MANAGER], MESSAGE_SLAB, &(struct msg_number){1, 0}, 8, NULL, 0),
	    0);
	cr_assert_eq(ends(manager), 0);
	peer_close(&peers[ROLE_MANAGER]);
	close(listener);
}

/* Whoever listens in a role's place under another uid is not talked to. */
Test(peer, impostor_is_not_talked_to, .init = run_dir_init, .fini = run_dir_fini, .timeout = 30)
{
	int ready[2];
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid_t impostor = fork();
	if (impostor == 0) {
		alarm(10);
		if (setgid(UID_STRANGER) || setuid(UID_STRANGER) ||
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
	struct peer_uids uids;

	cr_assert_eq(peer_uids_parse("0,61184,61185,61186,61187,4294967294", &uids), 0);
	cr_assert_eq(uids.uid[ROLE_CLI], 0);
	cr_assert_eq(uids.uid[ROLE_LOADER], 61184);
	cr_assert_eq(uids.uid[ROLE_EXPORTER], 4294967294u);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uids.uid[0] = 77;
		cr_expect_eq(peer_uids_parse(bad[i], &uids), -EINVAL, "'%s'", bad[i]);
		cr_expect_eq(uids.uid[0], 77, "outputs are untouched on failure");
	}
}
