/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches on their way to an agent's exporter, which may be killed with some of them unread: the
 * last ones are kept, and a new exporter says where to go on. While there is none they wait here.
 */
#ifndef SYMBOLIZER_WORKER_RESEND_BUFFER_H
#define SYMBOLIZER_WORKER_RESEND_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/peer.h"

struct resend_batch;

struct resend_buffer {
	struct resend_batch *first, *last;
	size_t bytes;
	uint64_t run;	   /* upper half of all sequence numbers: no other worker has it */
	uint64_t sequence; /* of the last batch */
	bool keeps;	   /* an agent's; a recording's exporter does not come back */
	bool open;	   /* batches go out as they come */
};

/* 0, or a negative errno of getrandom(2). */
int resend_buffer_init(struct resend_buffer *window, bool keeps);

/* Send a batch, which has the number window->sequence + 1, or keep it until it can be. 0; or a
 * negative errno: it is lost. */
int resend_buffer_send(struct resend_buffer *window, struct peer *exporter, const uint8_t *data,
		       size_t length, uint64_t now_ns);

/* A new exporter has all up to `sequence`: send it the rest. false: that is not here any more, and
 * nothing is; the numbers have to begin anew. */
bool resend_buffer_resume(struct resend_buffer *window, struct peer *exporter, uint64_t sequence);

/* The exporter is gone. */
void resend_buffer_shut(struct resend_buffer *window);

/* It has been gone for so long that no more should be taken out of the ring. */
bool resend_buffer_full(const struct resend_buffer *window);

#endif
