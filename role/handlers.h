/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of message handlers. Each program has one constant table, next to its handlers:
 *
 *	#define LOADER_HANDLERS(HANDLER, REFUSE)          \
 *		HANDLER(START, loader_on_start)           \
 *		HANDLER(STOP, loader_on_stop)             \
 *		...
 *	MESSAGE_HANDLERS(loader_handlers, LOADER, LOADER_HANDLERS);
 *
 * The build fails if a message that the loader may receive (messages.def) has no line, if a line
 * names another message, or if the type of a handler does not match the payload. REFUSE(name) is
 *for a role of which there are two programs: the message is for the other one.
 *
 * The type of a handler follows from the payload in messages.def:
 *	EMPTY		int fn(void *context)
 *	STRUCT		int fn(void *context, const type *payload)
 *	STRUCT_FDS	int fn(void *context, const type *payload, struct message *message)
 *	BYTES		int fn(void *context, const void *payload, size_t length)
 * It returns 0, or a negative errno that makes the role give up the sender. A handler that keeps a
 * descriptor of message->fds[] sets it to -1 there; the others are closed after it. The payload is
 * valid until the handler returns, is aligned to 8 bytes, and its strings may lack a NUL.
 */
#ifndef ROLE_HANDLERS_H
#define ROLE_HANDLERS_H

#include <stddef.h>

#include "ipc/peer.h"

#define HANDLER_EMPTY (void *context)
#define HANDLER_STRUCT(type) (void *context, const type *payload)
#define HANDLER_STRUCT_FDS(type, least, most)                                                      \
	(void *context, const type *payload, struct message *message)
#define HANDLER_BYTES(least, most) (void *context, const void *payload, size_t length)

/* One member for each message, called as in messages.def. NULL: the program refuses the message. */
struct message_handlers {
#define MESSAGE(name, sender, payload) int(*name) HANDLER_##payload;
#include "ipc/messages.def"
};

/* The sets of messages (bit 1 << type of each) that the roles may receive, without PING, which
 * role.c answers for all of them. */
#define MESSAGE_IN_SET(name, role, receiver)                                                       \
	| (ROLE_##role == ROLE_##receiver && MESSAGE_##name != MESSAGE_PING                        \
	       ? 1ull << MESSAGE_##name                                                            \
	       : 0)
enum message_set {
	MESSAGES_TO_CLI = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, CLI)
#include "ipc/messages.def"
	    ,
	MESSAGES_TO_LOADER = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, LOADER)
#include "ipc/messages.def"
	    ,
	MESSAGES_TO_MANAGER = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, MANAGER)
#include "ipc/messages.def"
	    ,
	MESSAGES_TO_OPENER = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, OPENER)
#include "ipc/messages.def"
	    ,
	MESSAGES_TO_WORKER = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, WORKER)
#include "ipc/messages.def"
	    ,
	MESSAGES_TO_EXPORTER = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, EXPORTER)
#include "ipc/messages.def"
	    ,
};

/* What the lines of a list become in the table, and in the check that the list is complete. */
#define HANDLER_IN_TABLE(id, fn) .id = fn,
#define REFUSED_IN_TABLE(id)
#define HANDLER_IN_CHECK(id, fn) | 1ull << MESSAGE_##id
#define REFUSED_IN_CHECK(id) | 1ull << MESSAGE_##id

/* Define the constant `table` of a program that has the role `role` from its list of handlers. */
#define MESSAGE_HANDLERS(table, role, list)                                                        \
	static const struct message_handlers table = {list(HANDLER_IN_TABLE, REFUSED_IN_TABLE)};   \
	_Static_assert((0ull list(HANDLER_IN_CHECK, REFUSED_IN_CHECK)) == MESSAGES_TO_##role,      \
		       #list " needs a line for each message to the role " #role)

/*
 * Call the handler of a message that peer_receive() has allowed, and close the descriptors that it
 * did not keep. Returns what the handler returned; -EPROTO if the program refuses the message.
 */
int handlers_call(const struct message_handlers *handlers, void *context, struct message *message);

#endif
