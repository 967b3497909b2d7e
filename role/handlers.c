/* SPDX-License-Identifier: Apache-2.0 */
#include "role/handlers.h"

#include <errno.h>

#define CALL_EMPTY (context)
#define CALL_STRUCT(type) (context, message->payload)
#define CALL_STRUCT_FDS(type, least, most) (context, message->payload, message)
#define CALL_BYTES(least, most) (context, message->payload, message->length)

static int handlers_switch(const struct message_handlers *handlers, void *context,
			   struct message *message)
{
	switch (message->type) {
#define MESSAGE(name, sender, payload)                                                             \
	case MESSAGE_##name:                                                                       \
		if (handlers->name)                                                                \
			return handlers->name CALL_##payload;                                      \
		break;
#include "ipc/messages.def"
	default:
		break;
	}
	message->verdict = MESSAGE_WRONG_RECEIVER;
	return -EPROTO;
}

int handlers_call(const struct message_handlers *handlers, void *context, struct message *message)
{
	const int r = handlers_switch(handlers, context, message);

	message_close(message);
	return r;
}
