/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: roles are connected by SOCK_SEQPACKET sockets, which keep the boundaries of
 * packets, so that one packet is one message: struct msg_header, then the payload, with the
 * descriptors next to it (SCM_RIGHTS).
 *
 * Connecting: each role listens on <run_dir>/<role>/sock. Any process may connect to it; the kernel
 * reports its uid, and a connection is kept only if a role that is expected has this uid. The
 * connecting side checks the uid of the listening process in the same way. If the CLI ends before
 * it has connected to all roles, it removes the run directory; they see that and end.
 *
 * Sending never blocks: what the socket does not take is queued, with duplicates of its
 * descriptors, and the loop sends it when the socket has room again. While there is a queue, new
 * messages are appended to it, so that the order is kept. A full queue is reported to the sender
 * (-ENOBUFS).
 *
 * Example: the manager announces 5,000 modules while the worker is busy. The first 100 or so fit
 * into the socket, the others wait in the queue of peers[ROLE_WORKER]; each time the worker has
 * read some, epoll reports EPOLLOUT and peer_flush() sends more.
 */
#include "ipc/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/fd_passing.h"
#include "ipc/peer_label.h"

enum {
	PEER_BACKLOG = 8, /* connections that wait to be accepted: more than there are roles */
	PEER_RUN_DIR_CHECK_MS = 50, /* how often a waiting role looks whether the CLI has ended */
	PEER_CONNECT_RETRY_NS = 2000000,
	PEER_SOCKET_BYTES = 4 << 20 /* a burst of some seconds of module announcements */
};

/* A queued packet. Its descriptors are duplicates, which belong to it. */
struct peer_packet {
	struct peer_packet *next;
	size_t length;
	unsigned int fd_count;
	int fds[MESSAGE_FDS_MAX];
	uint8_t bytes[];
};

int peer_uids_parse(const char *text, struct peer_uids *uids)
{
	struct peer_uids parsed = {0};

	for (int i = 0; i < ROLE_COUNT; i++) {
		char *end;

		errno = 0;
		unsigned long value = strtoul(text, &end, 10);
		if (errno || end == text || value >= (uid_t)-1 ||
		    *end != (i + 1 < ROLE_COUNT ? ',' : 0))
			return -EINVAL;
		parsed.uid[i] = (uid_t)value;
		text = end + 1;
	}
	*uids = parsed;
	return 0;
}

static int peer_address(const char *run_dir, enum role_id role, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s/sock", run_dir,
			 role_names[role].directory);

	return n < 0 || (size_t)n >= sizeof(address->sun_path) ? -ENAMETOOLONG : 0;
}

int peer_listen(const char *run_dir, enum role_id self)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	int r = peer_address(run_dir, self, &address);
	if (r < 0)
		return r;
	/* Any process may connect; its uid decides whether it is accepted. */
	mode_t mask = umask(0);
	/* A process of this role that ended may have left its socket. The directory belongs to the
	 * role. */
	unlink(address.sun_path);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(mask);
	if (r < 0)
		return r;
	if (listen(fd, PEER_BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Tells the uid of the process at the other end. */
static int peer_uid(int fd, uid_t *uid)
{
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
		return -errno;
	*uid = credentials.uid;
	return 0;
}

/* Returns whether the process at the other end, which has this uid, is a role. */
static bool is_role(int fd, uid_t uid, const struct peer_uids *uids, enum role_id role)
{
	return uids->uid[role] == uid && (!uids->by_domain || peer_label_is(fd, role));
}

static void peer_init(struct peer *peer, int fd, enum role_id self, enum role_id other)
{
	const int bytes = PEER_SOCKET_BYTES;

	/* net.core.wmem_max may limit this; what the socket has no room for is queued. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	*peer = (struct peer){.fd = fd, .self = self, .other = other};
}

int peer_connect(struct peer *peer, const char *run_dir, enum role_id self, enum role_id other,
		 const struct peer_uids *uids, int timeout_ms)
{
	struct sockaddr_un address;
	const uint64_t deadline = clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
	uid_t uid = (uid_t)-1;
	int r = peer_address(run_dir, other, &address);

	if (r < 0)
		return r;
	for (;;) {
		_cleanup_close_ int fd =
		    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			return -errno;
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
			r = peer_uid(fd, &uid);
			if (r < 0)
				return r;
			if (!is_role(fd, uid, uids, other))
				return -EACCES;
			peer_init(peer, TAKE_FD(fd), self, other);
			return 0;
		}
		/* These errors mean that the role does not listen yet. Others are final. */
		if (errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN)
			return -errno;
		r = errno == EAGAIN ? -EAGAIN : -ETIMEDOUT;
		if (access(run_dir, F_OK) < 0)
			return -EPIPE;
		if (clock_monotonic_ns() > deadline)
			return r;
		nanosleep(&(struct timespec){.tv_nsec = PEER_CONNECT_RETRY_NS}, NULL);
	}
}

int peer_accept_one(const struct peer_listener *listener, uint32_t expected, struct peer *accepted)
{
	_cleanup_close_ int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uid_t uid = (uid_t)-1;

	if (fd < 0)
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	int r = peer_uid(fd, &uid);
	if (r < 0)
		return r;
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (!(expected & ROLE_BIT(role)) ||
		    !is_role(fd, uid, listener->uids, (enum role_id)role))
			continue;
		peer_init(accepted, TAKE_FD(fd), listener->self, (enum role_id)role);
		return 1;
	}
	listener->on_refused(listener->context, uid);
	return 0;
}

/* Returns whether the CLI has removed the run directory, which it does when it ends. Then no role
 * connects any more. */
static bool run_dir_removed(int listen_fd)
{
	struct sockaddr_un address;
	socklen_t length = sizeof(address);

	if (getsockname(listen_fd, (struct sockaddr *)&address, &length) < 0)
		return true;
	return access(address.sun_path, F_OK) < 0;
}

int peer_accept_all(const struct peer_listener *listener, uint32_t expected,
		    struct peer peers[ROLE_COUNT], int timeout_ms)
{
	const uint64_t deadline = clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;

	for (;;) {
		uint32_t here = 0;

		for (int role = 0; role < ROLE_COUNT; role++)
			here |= peers[role].fd >= 0 ? ROLE_BIT(role) : 0;
		if ((here & expected) == expected)
			return 0;
		uint64_t now = clock_monotonic_ns();
		if (now >= deadline)
			return -ETIMEDOUT;
		if (run_dir_removed(listener->fd))
			return -EPIPE;
		struct pollfd p = {.fd = listener->fd, .events = POLLIN};
		uint64_t wait_ms = (deadline - now) / 1000000 + 1;
		poll(&p, 1, wait_ms < PEER_RUN_DIR_CHECK_MS ? (int)wait_ms : PEER_RUN_DIR_CHECK_MS);
		struct peer accepted;
		int r = peer_accept_one(listener, expected & ~here, &accepted);
		if (r < 0)
			return r;
		if (r > 0)
			peers[accepted.other] = accepted;
	}
}

int peer_watch(struct peer *peer, struct loop *loop, loop_fn fn, void *context)
{
	peer->loop = loop;
	return loop_add(loop, peer->fd, EPOLLIN | (peer->first ? EPOLLOUT : 0), fn, context);
}

/* Writes one packet to the socket. Returns 0, -EAGAIN if it has no room, -EMSGSIZE or -EPIPE. */
static int peer_transmit(struct peer *peer, const void *bytes, size_t length, const int *fds,
			 unsigned int fd_count)
{
	const int r = fd_passing_send(peer->fd, bytes, length, fds, fd_count, MSG_DONTWAIT);

	if (r == 0)
		return 0;
	/* ETOOMANYREFS: too many descriptors wait in sockets. There are fewer when the peer has
	 * read. */
	if (r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM || r == -EINTR || r == -ETOOMANYREFS)
		return -EAGAIN;
	if (r == -EMSGSIZE)
		return -EMSGSIZE;
	peer->broken = true;
	return -EPIPE;
}

static void peer_packet_free(struct peer_packet *packet)
{
	for (unsigned int i = 0; i < packet->fd_count; i++)
		close(packet->fds[i]);
	free(packet);
}

/* Takes the first packet out of the queue and frees it. */
static void peer_drop_first(struct peer *peer)
{
	struct peer_packet *packet = peer->first;

	peer->first = packet->next;
	if (!peer->first)
		peer->last = NULL;
	peer->queued_bytes -= packet->length;
	peer->queued_fds -= packet->fd_count;
	peer_packet_free(packet);
}

int peer_flush(struct peer *peer)
{
	int r = 0;

	while (peer->first) {
		const struct peer_packet *packet = peer->first;

		if (!peer->broken)
			r = peer_transmit(peer, packet->bytes, packet->length, packet->fds,
					  packet->fd_count);
		if (r == -EAGAIN)
			return r;
		/* peer_send() has accepted this packet, so the connection must not go on without
		 * it. */
		if (r == -EMSGSIZE)
			peer->broken = true;
		peer_drop_first(peer);
	}
	if (peer->loop)
		loop_modify(peer->loop, peer->fd, EPOLLIN);
	return r == -EPIPE ? 0 : r;
}

static int peer_enqueue(struct peer *peer, const uint8_t *bytes, size_t length, const int *fds,
			unsigned int fd_count)
{
	if (peer->queued_bytes + length > LIMIT_QUEUE_BYTES ||
	    peer->queued_fds + fd_count > LIMIT_QUEUE_FDS)
		return -ENOBUFS;
	struct peer_packet *packet = malloc(sizeof(*packet) + length);
	if (!packet)
		return -ENOBUFS;
	*packet = (struct peer_packet){.length = length};
	memcpy(packet->bytes, bytes, length);
	for (unsigned int i = 0; i < fd_count; i++) {
		packet->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (packet->fds[i] < 0) {
			peer_packet_free(packet);
			return -ENOBUFS;
		}
		packet->fd_count++;
	}
	if (peer->last)
		peer->last->next = packet;
	else
		peer->first = packet;
	peer->last = packet;
	peer->queued_bytes += length;
	peer->queued_fds += fd_count;
	if (peer->loop)
		loop_modify(peer->loop, peer->fd, EPOLLIN | EPOLLOUT);
	return 0;
}

int peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
	      const int *fds, unsigned int fd_count)
{
	struct message_buffer packet;
	const struct msg_header header = {.type = type, .length = (uint32_t)length};

	if (peer->fd < 0 || peer->broken)
		return -EPIPE;
	const struct message_envelope envelope = {.type = type,
						  .from = peer->self,
						  .to = peer->other,
						  .states = MESSAGE_ANY_STATE,
						  .length = length,
						  .fd_count = fd_count};
	if (message_check(&envelope) != MESSAGE_ALLOWED)
		return -EINVAL;
	memcpy(packet.bytes, &header, sizeof(header));
	if (length)
		memcpy(packet.bytes + sizeof(header), payload, length);
	length += sizeof(header);
	if (!peer->first) {
		int r = peer_transmit(peer, packet.bytes, length, fds, fd_count);

		if (r != -EAGAIN)
			return r;
	}
	return peer_enqueue(peer, packet.bytes, length, fds, fd_count);
}

void message_close(struct message *message)
{
	for (unsigned int i = 0; i < message->fd_count; i++) {
		if (message->fds[i] >= 0)
			close(message->fds[i]);
	}
	message->fd_count = 0;
}

/* Checks a packet of `length` bytes, whose descriptors are in `message` already. */
static enum message_verdict peer_check(struct peer *peer, enum role_state state,
				       const uint8_t *bytes, size_t length, bool truncated,
				       struct message *message)
{
	struct msg_header head = {0};

	if (length < sizeof(head) || truncated)
		return MESSAGE_WRONG_LENGTH;
	memcpy(&head, bytes, sizeof(head));
	message->type = (enum message_type)head.type;
	if (head.length != length - sizeof(head))
		return MESSAGE_WRONG_LENGTH;
	const struct message_envelope envelope = {.type = head.type,
						  .from = peer->other,
						  .to = peer->self,
						  .states = MESSAGE_STATE_BIT(state),
						  .length = head.length,
						  .fd_count = message->fd_count,
						  .received = peer->received};
	const enum message_verdict verdict = message_check(&envelope);
	if (verdict != MESSAGE_ALLOWED)
		return verdict;
	peer->received |= 1ull << head.type;
	message->length = head.length;
	message->payload = bytes + sizeof(head);
	return MESSAGE_ALLOWED;
}

int peer_receive(struct peer *peer, enum role_state state, struct message_buffer *buffer,
		 struct message *message)
{
	unsigned int fd_count;
	bool truncated;

	*message = (struct message){0};
	if (peer->fd < 0)
		return -EPIPE;
	const ssize_t n =
	    fd_passing_receive(peer->fd, buffer->bytes, sizeof(buffer->bytes), MSG_DONTWAIT,
			       message->fds, MESSAGE_FDS_MAX, &fd_count, &truncated);
	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? 0 : -EPIPE;
	message->fd_count = fd_count < MESSAGE_FDS_MAX ? fd_count : MESSAGE_FDS_MAX;
	if (n == 0) {
		message_close(message);
		return -EPIPE;
	}
	message->verdict = peer_check(peer, state, buffer->bytes, (size_t)n, truncated, message);
	if (message->verdict == MESSAGE_ALLOWED)
		return 1;
	message_close(message);
	return -EPROTO;
}

int peer_receive_wait(struct peer *peer, enum role_state state, struct message_buffer *buffer,
		      struct message *message, int timeout_ms)
{
	const uint64_t deadline = clock_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;

	for (;;) {
		int r = peer_receive(peer, state, buffer, message);

		if (r)
			return r;
		uint64_t now = clock_monotonic_ns();
		if (now >= deadline)
			return -ETIMEDOUT;
		struct pollfd p = {.fd = peer->fd, .events = POLLIN};
		poll(&p, 1, (int)((deadline - now) / 1000000 + 1));
	}
}

void peer_close(struct peer *peer)
{
	while (peer->first)
		peer_drop_first(peer);
	if (peer->loop && peer->fd >= 0)
		loop_remove(peer->loop, peer->fd);
	if (peer->fd >= 0)
		close(peer->fd);
	*peer = (struct peer)PEER_NONE;
}
