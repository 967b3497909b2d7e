/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for all peers of one role, with their credentials, which can send any packet.
 *
 * How this works. The kernel reports the effective uid that a process had when it called listen(2)
 * or connect(2) as the uid of the peer. So one process of root can stand in for every role: it
 * changes its effective uid for the moment of that call. The receiver is the program that is
 * shipped, in its own sandbox. What it needs of the loader (BPF maps) comes from a real loader, to
 * which the stand-in was connected before.
 *
 * Example: session_start() starts bulkhead-opener, with connections from the CLI, the manager and
 * the worker, of which the latter two come after MEET. session_make_ready() sends it WORK_PAGE and
 * waits for its STATUS. session_send() sends FORBID_MEMORY as the manager, one byte too long.
 * session_end_of() returns its exit status, and session_log() what it has logged.
 */
#ifndef TESTS_SECURITY_STAND_IN_H
#define TESTS_SECURITY_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/message_check.h"

enum {
	STAND_IN_FDS_MAX = MESSAGE_FDS_MAX + 4, /* more than any message may have */
	STAND_IN_SECONDS = 30			/* only to end a hang */
};

/* A program that receives messages. */
struct receiver {
	const char *title;
	enum role_id role;
	bool agent;
	/* The roles to which it connects, because MEET says that they are there, those that connect
	 * to it later, and those without which it goes on if they break the protocol. */
	uint32_t connects, accepts, survives;
};

/* Everything that is sent at once. */
struct packet {
	enum role_id from;
	uint32_t type;
	uint32_t header_length; /* as the header says */
	const void *payload;
	size_t length; /* as it is */
	int fds[STAND_IN_FDS_MAX];
	unsigned int fd_count;
};

/* What the real loader has sent to its peers. */
struct loader_maps {
	struct msg_maps text[ROLE_COUNT];
	int fds[ROLE_COUNT][MESSAGE_FDS_MAX];
	unsigned int fd_counts[ROLE_COUNT];
	/* The manager's first slab. */
	struct msg_id slab;
	int slab_fd;
	bool has_slab;
};

struct session {
	const struct receiver *receiver;
	struct loader_maps *maps;
	pid_t pid;
	int log;		   /* what it writes to standard error */
	int peers[ROLE_COUNT];	   /* -1: not connected */
	uint64_t sent[ROLE_COUNT]; /* types that this peer has sent: bit 1 << type */
	enum role_state state;	   /* as the receiver has reported it */
	unsigned int pongs;
	int wait_status; /* if it has ended */
	bool ended;
};

extern const struct receiver receivers[];
extern const size_t receiver_count;

/* Creates what all sessions share. `bin` is the directory of the programs. */
void stand_in_init(const char *bin);
void stand_in_fini(void);

/* Starts the receiver and connects CONTROL to it. Returns false if it has ended before. */
bool session_start_alone(struct session *s, const struct receiver *receiver,
			 struct loader_maps *maps);

/* Connects its other peers, when MEET was sent. Returns false if it has ended before. */
bool session_connect_peers(struct session *s);

/* Does both, and sends MEET in between. */
bool session_start(struct session *s, const struct receiver *receiver, struct loader_maps *maps);

/* Sends a receiver its configuration, and waits until it is ready. */
bool session_make_ready(struct session *s);

/* Returns whether this message of this role is a part of the configuration. */
bool session_configures(const struct session *s, enum role_id from, uint32_t type);

/* Waits until the loader has sent its peers all their maps, after it has accepted them. */
bool session_wait_maps(struct session *s);

/* Writes the types that `from` sends to a receiver when that starts, in this order, to `types`:
 * also those without which it is ready, too. Returns their number, which is at most `most`. */
size_t session_start_messages(const struct receiver *receiver, enum role_id from, uint32_t *types,
			      size_t most);

/* Sends the receiver what packet_valid() returns. */
void session_send_valid(struct session *s, enum role_id from, uint32_t type);

/* Waits until the receiver is ready. Returns false if it ends before, or hangs. */
bool session_wait_ready(struct session *s);

/* Sends what comes before this part of the configuration. */
void session_configure_until(struct session *s, enum role_id from, uint32_t type);

/* Sends what comes after it, and waits until the receiver is ready. Returns false if it is not. */
bool session_configure_after(struct session *s, enum role_id from, uint32_t type);

/* Returns the packet with a message of this type that has the least bytes, all zero, and the least
 * descriptors, of /dev/null. */
struct packet packet_smallest(enum role_id from, uint32_t type);

/* Returns the valid packet of a message with which a receiver is configured; of another message,
 * the smallest one. */
struct packet packet_valid(const struct session *s, enum role_id from, uint32_t type);

/* Sends a packet. Returns false if the receiver has closed the connection. */
bool session_send(struct session *s, const struct packet *packet);

/* Reads what the receiver has sent. */
void session_drain(struct session *s);

/* Waits until the receiver has handled everything that was sent, or has ended. Returns false if it
 * neither answers nor ends. */
bool session_synchronize(struct session *s);

/* Waits for the end of the receiver. Returns false if it does not end. */
bool session_wait_end(struct session *s);

/* Returns the number of descriptors that the receiver has open. */
unsigned int session_fd_count(const struct session *s);

/* Returns what the receiver has logged; valid until the next call. */
const char *session_log(const struct session *s);

/* Kills the receiver if it runs, and closes everything. */
void session_close(struct session *s);

/* Checks that a receiver becomes ready in whatever order the messages of its peers arrive
 * (stand_in_start.c). Returns the number of orders in which it does not, which it prints. */
unsigned int stand_in_check_orders(const struct receiver *receiver, struct loader_maps *maps);

#endif
