/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: connections between the roles. The kernel reports the uid of the process at the other end
 * (SO_PEERCRED), which says which role it is; messages.def says what that role may send. Every
 * packet is checked by message_check() before it is sent, and before a handler sees it.
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

/* The uid that each role has in this run. A peer is recognised by it. */
struct peer_uids {
	uid_t uid[ROLE_COUNT];
	bool by_domain; /* each role is in its SELinux domain, too (peer_label.h) */
};

/* Parses "0,61184,61185,...", the uids in the order of roles.def. Returns 0 or -EINVAL. */
int peer_uids_parse(const char *text, struct peer_uids *uids);

struct peer_packet;

struct peer {
	int fd; /* -1: not connected */
	enum role_id self, other;
	struct loop *loop;		  /* after peer_watch(); otherwise NULL */
	struct peer_packet *first, *last; /* packets that wait */
	size_t queued_bytes;
	unsigned int queued_fds;
	uint64_t received; /* types of messages received on this connection: bit 1 << type */
	bool broken;	   /* a packet could not be sent, so nothing else is sent either */
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

/* Creates the listening socket of a role, <run_dir>/<role>/sock. The role itself calls this, under
 * its own uid. Returns the descriptor, which is the caller's, or a negative errno. */
int peer_listen(const char *run_dir, enum role_id self);

/* A listening socket, and what is known about those who connect to it. */
struct peer_listener {
	int fd;
	enum role_id self;
	const struct peer_uids *uids;
	/* Called with the uid of each process whose connection was closed, because no role with
	 * this uid, or in this domain, is expected. */
	void (*on_refused)(void *context, uid_t uid);
	void *context;
};

/* Connects to another role, waiting up to `timeout_ms` for it to listen, and checks who that is.
 * Returns 0; -EACCES if the process that listens has an unexpected uid or domain; -ETIMEDOUT if it
 * did not listen; -EAGAIN if it did, but too many others wait for it; -EPIPE if the run directory
 * was removed, because the CLI has ended; or another negative errno. */
int peer_connect(struct peer *peer, const char *run_dir, enum role_id self, enum role_id other,
		 const struct peer_uids *uids, int timeout_ms);

/* Accepts peers until each role in `expected` (ROLE_BIT of each) is connected, for at most
 * `timeout_ms`. Connections of unexpected peers are closed. peers[] is by role. Returns 0;
 * -ETIMEDOUT; -EPIPE if the run directory was removed, because the CLI has ended; or another
 * negative errno. */
int peer_accept_all(const struct peer_listener *listener, uint32_t expected,
		    struct peer peers[ROLE_COUNT], int timeout_ms);

/* Accepts one connection, if it comes from a role in `expected`. Returns 1: it is in `accepted`,
 * which says from whom; 0: there was no connection, or it was closed as unexpected; or a negative
 * errno, such as -EMFILE, with which the connection still waits. */
int peer_accept_one(const struct peer_listener *listener, uint32_t expected, struct peer *accepted);

/* Has the loop call `fn` from now on when the peer has sent something, when it can take queued
 * packets (EPOLLOUT: call peer_flush), and when it is gone. Returns 0 or a negative errno. */
int peer_watch(struct peer *peer, struct loop *loop, loop_fn fn, void *context);

/*
 * Sends a message, or queues it if the socket is full. The descriptors stay the caller's.
 *
 * Returns 0; -ENOBUFS if the queue is full, and nothing was sent; -EPIPE if the peer is gone;
 * -EINVAL if messages.def does not allow it; -EMSGSIZE if net.core.wmem_max is too small for the
 * message.
 */
int peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
	      const int *fds, unsigned int fd_count);

/*
 * Sends queued packets until the socket is full.
 *
 * Returns 0 if none is left, or if the peer is gone, which peer_receive() reports; -EAGAIN if some
 * are left; -EMSGSIZE if net.core.wmem_max is too small for one of them. Then all are dropped, and
 * the caller must close the peer.
 */
int peer_flush(struct peer *peer);

/*
 * Receives the next message, without waiting. `state` is the state of this role; the protocol
 * allows each message in some states only.
 *
 * Returns 1: `message` is allowed, and its descriptors belong to the caller, who calls
 * message_close() for those that it does not keep; 0: there is no message; -EPIPE: the peer is
 * gone; -EPROTO: the protocol does not allow the message, whose type and verdict say why, and the
 * caller must close the peer.
 */
int peer_receive(struct peer *peer, enum role_state state, struct message_buffer *buffer,
		 struct message *message);

/* Does the same as peer_receive(), but waits up to `timeout_ms` for a message. Returns -ETIMEDOUT
 * if none came. */
int peer_receive_wait(struct peer *peer, enum role_state state, struct message_buffer *buffer,
		      struct message *message, int timeout_ms);

/* Closes the descriptors of a message that nobody has taken. */
void message_close(struct message *message);

/* Closes the connection and drops what is queued. May be called again. */
void peer_close(struct peer *peer);

#endif
