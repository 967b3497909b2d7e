/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch of records that is being collected for the exporter, and its way there.
 *
 * How this works:
 * - Definitions (modules, functions, frames, stacks, processes, threads) and samples are added to
 *   one FlatBuffers builder. Everything is defined once, under an id, and referred to by that id in
 *   the same batch or in later ones.
 * - A batch that cannot be sent therefore invalidates all ids: the exporter would not know what
 *   later batches refer to. The owner then resets its ids, and the next batch tells the exporter to
 *   drop its own (`reset`).
 * - The ids must never be reset while those of a stack are being assigned: it would refer to ids
 *   without a meaning. They are only reset in batch_flush() and in batch_reserve(), which is called
 *   once per stack, before its first id is assigned.
 * - A deep stack of long new names can need more room than a batch has (600 names of 1 KiB). Then
 *   batch_send_if_full() sends what there is. If that fails, everything after it is dropped as
 *   well, until the next flush reports the error.
 *
 * Example: a batch counts as full above 30,000 bytes, and holds 10,000. batch_reserve() finds room
 * for a stack of 60 new frames with 600 bytes each. After 34 of them batch_send_if_full() sends the
 * batch; the other frames and the stack are in a second one. If the first could not be sent, the
 * batch_reserve() of the next stack drops the second and resets all ids.
 */
#ifndef SYMBOLIZER_WORKER_BATCH_H
#define SYMBOLIZER_WORKER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/worker/limits.h"
#include "records/records.h"
#include "symbolizer/worker/resend_buffer.h"

/* What the owner has to do; `context` is that of batch_init(). */
struct batch_hooks {
	/* Adds what has to be in the batch that is about to be sent. */
	void (*before_send)(void *context);
	/* Resets all ids, and counts `samples` samples as lost, because a batch could not be sent.
	 * `error` is a negative errno: -ENOMEM, or one of peer_send(). */
	void (*on_lost)(void *context, size_t samples, int error);
};

struct batch {
	struct records *records; /* definitions and samples so far */
	size_t pending_bytes;	 /* that before_send will add to the records, at most */
	struct resend_buffer resend;
	struct peer *exporter;
	const struct batch_hooks *hooks;
	void *context;
	uint64_t sent_bytes;   /* in all batches so far */
	uint64_t sent_samples; /* in them, and in those of earlier workers */
	bool reset;	       /* the next batch tells the exporter to drop all ids */
	int error;	       /* a batch could not be sent, which the next flush reports */
	size_t error_samples;  /* that are lost with it */
};

/* Starts an empty batch. The first one that is sent resets the exporter, which may have ids of an
 * earlier worker. `keep`: sent batches are kept for an exporter that is restarted. `exporter` and
 * `hooks` must outlive the batch. Returns 0, -ENOMEM, or -EIO without random bytes. */
int batch_init(struct batch *batch, bool keep, struct peer *exporter,
	       const struct batch_hooks *hooks, void *context);
/* Drops everything that was not sent. */
void batch_fini(struct batch *batch);

/* Sends everything that was collected. */
void batch_flush(struct batch *batch);

/* Returns the number of samples that are in batches, also in those of earlier workers, and were not
 * reported as lost. The exporter finds out by it how many have not reached it. */
uint64_t batch_position(const struct batch *batch);

/* Returns whether less than half of the batch is left. */
static inline bool batch_is_full(const struct batch *batch)
{
	return records_bytes(batch->records) + batch->pending_bytes > LIMIT_BATCH_BYTES / 2;
}

/* Makes room for one more stack: sends what was collected if the batch is full. */
static inline void batch_reserve(struct batch *batch)
{
	if (batch->error || batch_is_full(batch))
		batch_flush(batch);
}

/* Sends the batch if it is full, without resetting ids. Called between two frames of a stack. */
void batch_send_if_full(struct batch *batch);

/* Drops everything that was collected, and tells the exporter to drop all ids with the next batch.
 * Returns the number of samples that are lost with it. */
size_t batch_discard(struct batch *batch);

#endif
