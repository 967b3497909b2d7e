/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake peer: peer_send() for tests that are linked without ipc/. It counts the messages by type
 * and hands them, without descriptors, to the test, which may answer with an error.
 *
 * A test defines it once: FAKE_PEER(on_send), or FAKE_PEER(NULL) if every message is accepted.
 */
#ifndef TESTS_SUPPORT_FAKE_PEER_H
#define TESTS_SUPPORT_FAKE_PEER_H

#include "ipc/peer.h"

struct fake_peer {
	/* Returns what peer_send() returns. */
	int (*on_send)(enum message_type type, const void *payload, size_t length);
	unsigned int attempts[MESSAGE_TYPE_COUNT]; /* calls of peer_send(), refused ones included */
};

extern struct fake_peer fake_peer;

#define FAKE_PEER(fn) struct fake_peer fake_peer = {.on_send = (fn)}

#endif
