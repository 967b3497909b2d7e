/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_peer.h"

#include <stdlib.h>

int peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length, const int *fds, unsigned int fd_count)
{
	(void)peer;
	(void)fds;
	(void)fd_count;
	if (type <= MESSAGE_NONE || type >= MESSAGE_TYPE_COUNT || (length && !payload))
		abort();
	fake_peer.attempts[type]++;
	return fake_peer.on_send ? fake_peer.on_send(type, payload, length) : 0;
}
