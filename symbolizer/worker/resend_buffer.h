/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches on their way to the exporter of an agent, which may be killed before it has read them.
 *
 * How this works:
 * - Each batch has a sequence number. The upper 32 bits identify this worker: they are random, so
 *   that an exporter does not mistake the batches of a restarted worker for a continuation.
 * - A batch that was sent is kept as well, until LIMIT_RESEND_MS have passed or the buffer is
 *   larger than LIMIT_RESEND_BYTES. An exporter that reads at all has read it by then.
 * - A new exporter says which batch it has read last (resend_buffer_resume()). If the buffer still
 *   has all that follow, they are sent again. Otherwise the exporter lacks definitions and
 *   everything has to be defined again.
 * - Without an exporter, batches are only kept: up to twice LIMIT_RESEND_BYTES, then they are lost.
 *   Once LIMIT_RESEND_BYTES are kept, no more samples should be taken from the ring.
 * - The exporter of a recording is not restarted, so nothing is kept there.
 *
 * Example: batches 1 to 5 were sent, 1 and 2 are more than 10 seconds old and were dropped. A new
 * exporter that has read up to 3 is sent 4 and 5. One that has read up to 1 lacks 2: everything is
 * defined again.
 */
#ifndef SYMBOLIZER_WORKER_RESEND_BUFFER_H
#define SYMBOLIZER_WORKER_RESEND_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/peer.h"

struct resend_batch;

struct resend_buffer {
	struct resend_batch *first, *last; /* oldest first */
	size_t bytes;			   /* in the batches that are kept */
	uint64_t first_sequence;	   /* random upper half, lower half 0 */
	uint64_t sequence;		   /* of the last batch */
	bool keep;			   /* batches are kept after they were sent */
	bool connected;			   /* there is an exporter: batches are sent at once */
};

/* Starts an empty buffer. `keep` is true in an agent, whose exporter may be restarted. The buffer
 * then waits for the first exporter. Returns 0, or -EIO without random bytes. */
int resend_buffer_init(struct resend_buffer *buffer, bool keep);
void resend_buffer_fini(struct resend_buffer *buffer);

/* Sends a batch, which must have the sequence number buffer->sequence + 1, or keeps it until there
 * is an exporter. Returns 0, or a negative errno if the batch is lost. */
int resend_buffer_send(struct resend_buffer *buffer, struct peer *exporter, const uint8_t *data,
		       size_t length, uint64_t now_ns);

/* Sends the rest to a new exporter, which has read everything up to `sequence`. Returns false if
 * some of the rest is no longer here. Nothing is kept then, and everything has to be defined
 * again. */
bool resend_buffer_resume(struct resend_buffer *buffer, struct peer *exporter, uint64_t sequence);

/* Records that the exporter has disconnected. */
void resend_buffer_disconnect(struct resend_buffer *buffer);

/* Returns whether there is no exporter, and LIMIT_RESEND_BYTES are exceeded. Then no more samples
 * should be taken from the ring. */
bool resend_buffer_is_full(const struct resend_buffer *buffer);

#endif
