/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: who is at the other end of a socket, known by its uid (SO_PEERCRED), and what it may say,
 * known from messages.def. Every packet is checked in one place (peer_receive) before a handler
 * sees it.
 */
#ifndef IPC_PEER_H
#define IPC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/loop.h"
#include "ipc/message_check.h"
#include "ipc/messages.h"

/* Which uid each role has in this run: how a peer is recognised. */
struct peer_uids {
	uid_t uid[ROLE_COUNT];
};

/* "0,61184,61185,..." in the order of roles.def. 0 or -EINVAL. */
int peer_uids_parse(const char *text, struct peer_uids *uids);

struct peer_packet;

struct peer {
	int fd; /* -1: not connected */
	enum role_id self, other;
	struct loop *loop;		  /* once watched */
	struct peer_packet *first, *last; /* queued */
	size_t queued_bytes;
	unsigned int queued_fds;
	uint64_t received; /* types of messages received on this connection: bit 1 << type */
	bool broken;
};

#define PEER_NONE                                                                                  \
	{                                                                                          \
		.fd = -1                                                                           \
	}

struct message {
	enum message_type type;
	enum message_verdict verdict; /* of a message that was refused: why */
	uint32_t length;
	const void *payload; /* 8-byte aligned, in the buffer given */
	int fds[MESSAGE_FDS_MAX];
	unsigned int fd_count;
};

struct message_buffer {
	_Alignas(8) uint8_t bytes[MESSAGE_BYTES_MAX];
};

/* The listening socket of a role, <run_dir>/<role>/sock; made by the role itself, under its own
 * uid. fd or negative errno. */
int peer_listen(const char *run_dir, enum role_id self);

/* Connect to another role, waiting up to `timeout_ms` for it to appear, and check that its uid is
 * the one expected. 0, -EACCES for a stranger, -ETIMEDOUT, -EPIPE if the run directory is gone. */
int peer_connect(struct peer *peer, const char *run_dir, enum role_id self, enum role_id other,
		 const struct peer_uids *uids, int timeout_ms);

/* Accept peers until each role in `expected` (ROLE_BIT) is there, at most `timeout_ms`; strangers
 * are turned away. peers[] is by role. 0, -ETIMEDOUT, -EPIPE if our own socket's name is gone. */
int peer_accept_all(int listen_fd, enum role_id self, uint32_t expected,
		    const struct peer_uids *uids, struct peer peers[ROLE_COUNT], int timeout_ms);

/* Accept one peer that has knocked, if it is one of `expected` that is not there. 1; 0 if it was
 * none; or a negative errno. */
int peer_accept_one(int listen_fd, enum role_id self, uint32_t expected,
		    const struct peer_uids *uids, struct peer peers[ROLE_COUNT]);

/* Once the loop runs: `fn` is called when there is something to read or the peer is gone. Queued
 * packets leave by themselves. */
int peer_watch(struct peer *peer, struct loop *loop, loop_fn fn, void *context);

/* Send, or queue if the socket is full. The descriptors stay the caller's. 0; -ENOBUFS if the queue
 * is full (nothing was sent); -EPIPE if the peer is gone; -EINVAL if the table does not allow it;
 * -EMSGSIZE: net.core.wmem_max is too small.
 */
int peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
	      const int *fds, unsigned int fd_count);

/* Send what is queued as far as the socket takes it. Called by the loop; true if nothing is left.
 */
bool peer_flush(struct peer *peer);

/*
 * Receive the next message, without waiting. `state` is the state of this process, which the
 * protocol allows or refuses messages by.
 *
 * 1: `message` is allowed; its descriptors belong to the caller, who calls message_close() for
 * those that it does not keep. 0: there is no message. -EPIPE: the peer is gone. -EPROTO: the
 * protocol does not allow the message; its type and verdict say why, and the caller must close the
 * peer.
 */
int peer_receive(struct peer *peer, enum role_state state, struct message_buffer *buffer,
		 struct message *message);

/* As peer_receive, but waits up to `timeout_ms`; -ETIMEDOUT. */
int peer_receive_wait(struct peer *peer, enum role_state state, struct message_buffer *buffer,
		      struct message *message, int timeout_ms);

void message_close(struct message *message);
void peer_close(struct peer *peer);

#endif
