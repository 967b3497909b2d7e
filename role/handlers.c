/* SPDX-License-Identifier: Apache-2.0 */
#include "role/handlers.h"

#include <errno.h>

int handlers_refuse(struct message *message)
{
	message->verdict = MESSAGE_WRONG_RECEIVER;
	return -EPROTO;
}

int handlers_call(message_handlers *handlers, void *context, struct message *message)
{
	const int r = handlers(context, message);

	message_close(message);
	return r;
}
