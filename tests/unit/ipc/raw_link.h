/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a struct peer. The other end writes packets of any bytes, like a hostile peer. */
#ifndef TESTS_UNIT_IPC_RAW_LINK_H
#define TESTS_UNIT_IPC_RAW_LINK_H

#include "ipc/peer.h"

enum {
	RAW_FDS_MAX = MESSAGE_FDS_MAX + 4 /* more than any message may have */
};

struct link {
	int raw;
	struct peer peer; /* the receiver */
	struct message_buffer buffer;
};

/* Creates a connection. The role `from` is the hostile peer, `to` the receiver. */
struct link *link_new(enum role_id from, enum role_id to);
void link_free(struct link *l);

/* Writes a packet of these bytes, with `fd_count` descriptors. */
void raw_send(int fd, const void *bytes, size_t length, unsigned int fd_count);

/* Returns the number of open descriptors of this process. */
unsigned int count_fds(void);

#endif
