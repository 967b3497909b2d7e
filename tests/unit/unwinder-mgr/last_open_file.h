/* SPDX-License-Identifier: Apache-2.0 */
/* A fake peer that keeps the manager's last request for a file, so that the test can answer it. */
#ifndef TESTS_UNIT_UNWINDER_MGR_LAST_OPEN_FILE_H
#define TESTS_UNIT_UNWINDER_MGR_LAST_OPEN_FILE_H

#include <string.h>

#include "tests/support/fake_peer.h"

static struct msg_open_file last; /* the last request to the opener */

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type == MESSAGE_OPEN_FILE && length == sizeof(last))
		memcpy(&last, payload, length);
	return 0;
}

FAKE_PEER(on_send);

#endif
