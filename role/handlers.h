/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of message handlers. Each program has one list, next to its handlers, which becomes a
 * function that calls them:
 *
 *	#define LOADER_HANDLERS(HANDLER, REFUSED)         \
 *		HANDLER(START, loader_on_start)           \
 *		HANDLER(STOP, loader_on_stop)             \
 *		...
 *	MESSAGE_HANDLERS(loader_handlers, LOADER, LOADER_HANDLERS);
 *
 * The build fails if a message that the loader may receive (messages.def) has no line, if a line
 * names another message, or if the type of a handler does not match the payload. REFUSED(name) is
 * for a role of which there are two programs: the message is for the other one.
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

#define CALL_EMPTY (context)
#define CALL_STRUCT(type) (context, message->payload)
#define CALL_STRUCT_FDS(type, least, most) (context, message->payload, message)
#define CALL_BYTES(least, most) (context, message->payload, message->length)

/* Defines handler_call_NAME() for each message, which calls a handler `fn` with the arguments for
 * the payload. */
#define MESSAGE(name, sender, payload)                                                             \
	static inline int handler_call_##name(int(*fn) HANDLER_##payload, void *context,           \
					      struct message *message)                             \
	{                                                                                          \
		(void)message;                                                                     \
		return fn CALL_##payload;                                                          \
	}
#include "ipc/messages.def"

/* Calls the handler of a message. Returns what it returned; -EPROTO if the program refuses it. */
typedef int message_handlers(void *context, struct message *message);

/* Whether role.c handles messages of a type, for all roles. */
#define MESSAGE_IS_COMMON(type)                                                                    \
	((type) == MESSAGE_PING || (type) == MESSAGE_WORK_PAGE || (type) == MESSAGE_MEET ||        \
	 (type) == MESSAGE_GIVEN_UP || (type) == MESSAGE_GIVEN_UP_BY_LOADER)

/* The sets of messages (bit 1 << type of each) that the roles may receive and handle themselves. */
#define MESSAGE_IN_SET(name, role, receiver)                                                       \
	| (ROLE_##role == ROLE_##receiver && !MESSAGE_IS_COMMON(MESSAGE_##name)                    \
	       ? 1ull << MESSAGE_##name                                                            \
	       : 0)
enum message_set {
	MESSAGES_TO_CONTROL = 0ull
#define RECEIVER(name, role, states, times) MESSAGE_IN_SET(name, role, CONTROL)
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

/* What the lines of a list become in the function, and in the check that the list is complete. */
#define HANDLER_IN_SWITCH(id, fn)                                                                  \
	case MESSAGE_##id:                                                                         \
		return handler_call_##id(fn, context, message);
#define REFUSED_IN_SWITCH(id)
#define HANDLER_IN_CHECK(id, fn) | 1ull << MESSAGE_##id
#define REFUSED_IN_CHECK(id) | 1ull << MESSAGE_##id

/* Defines the function `handlers` of a program that has the role `role` from its list. */
#define MESSAGE_HANDLERS(handlers, role, list)                                                     \
	static int handlers(void *context, struct message *message)                                \
	{                                                                                          \
		switch (message->type) {                                                           \
			list(HANDLER_IN_SWITCH, REFUSED_IN_SWITCH) default                         \
			    : return handlers_refuse(message);                                     \
		}                                                                                  \
	}                                                                                          \
	_Static_assert((0ull list(HANDLER_IN_CHECK, REFUSED_IN_CHECK)) == MESSAGES_TO_##role,      \
		       #list " needs a line for each message to the role " #role)

/* Refuses a message that has no handler: sets the reason for the log, and returns -EPROTO. */
int handlers_refuse(struct message *message);

/*
 * Calls the handler of a message that peer_receive() has allowed, and closes the descriptors that
 * it did not keep. Returns what the handler returned; -EPROTO if the program refuses the message.
 */
int handlers_call(message_handlers *handlers, void *context, struct message *message);

#endif
