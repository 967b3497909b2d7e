/* SPDX-License-Identifier: Apache-2.0 */
/* The one check of the protocol, generated from messages.def and applied to every packet that is
 * sent or received. */
#ifndef IPC_MESSAGE_CHECK_H
#define IPC_MESSAGE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/messages.h"

/* A set of states of a receiver has the bit 1 << state of each. */
#define MESSAGE_STATE_BIT(state) (1u << (state))
#define MESSAGE_ANY_STATE ((1u << ROLE_STATE_COUNT) - 1u)

struct message_rule {
	char name[20];
	struct {
		uint32_t bytes_least, bytes_most; /* of the payload */
		uint8_t fds_least, fds_most;
	} sizes;
	uint8_t senders; /* ROLE_BIT of each */
	struct {
		uint8_t states : 7; /* in which this role accepts the message; 0: never */
		uint8_t once : 1;   /* on one connection */
	} receivers[ROLE_COUNT];
};
_Static_assert(ROLE_STATE_COUNT <= 7, "a set of states fits");

extern const struct message_rule message_rules[MESSAGE_TYPE_COUNT];

/* All of a packet but the contents of its payload. */
struct message_envelope {
	uint32_t type;
	enum role_id from, to;
	uint32_t states; /* the state of the receiver, as a set; MESSAGE_ANY_STATE before sending */
	size_t length;	 /* of the payload */
	unsigned int fd_count;
	uint64_t received; /* types that came on this connection before: bit 1 << type */
};

enum message_verdict {
	MESSAGE_ALLOWED,
	MESSAGE_UNDEFINED,
	MESSAGE_WRONG_SENDER,
	MESSAGE_WRONG_RECEIVER,
	MESSAGE_WRONG_STATE,
	MESSAGE_REPEATED,
	MESSAGE_WRONG_LENGTH,
	MESSAGE_WRONG_FDS,
	MESSAGE_VERDICT_COUNT
};

/* For log messages. That of MESSAGE_ALLOWED is for messages that a handler refused. */
extern const char *const message_verdict_texts[MESSAGE_VERDICT_COUNT];

/* Returns MESSAGE_ALLOWED, or the first reason why the protocol does not allow the packet. */
enum message_verdict message_check(const struct message_envelope *envelope);

/* Returns the name of a message in log messages; "undefined" if there is no such message. */
const char *message_name(uint32_t type);

#endif
