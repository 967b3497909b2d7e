/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "symbolizer/worker/limits.h"
#include "common/log.h"

enum {
	/* Names of one stack: 1,000 frames of 1 KiB are 1 MiB. More can only come from a process
	 * that forges the names of its managed frames; its sample is lost. */
	CLOSED_BYTES_MAX = 4 << 20,
};

/* A batch that waits for the next flush. */
struct closed_batch {
	struct closed_batch *next;
	size_t length, samples;
	uint8_t data[];
};

int batch_init(struct batch *batch, bool keep, struct peer *exporter,
	       const struct batch_hooks *hooks, void *context)
{
	*batch =
	    (struct batch){.exporter = exporter, .hooks = hooks, .context = context, .reset = true};
	int r = resend_buffer_init(&batch->resend, keep);
	if (r < 0)
		return r;
	batch->records = records_new();
	return batch->records ? 0 : -ENOMEM;
}

void batch_fini(struct batch *batch)
{
	batch_discard(batch);
	records_free(batch->records);
	batch->records = NULL;
	resend_buffer_fini(&batch->resend);
}

static struct closed_batch *batch_take_closed(struct batch *batch)
{
	struct closed_batch *first = batch->closed;

	batch->closed = first->next;
	if (!batch->closed)
		batch->closed_last = NULL;
	batch->closed_bytes -= first->length;
	return first;
}

/* Finish the builder. Its bytes stay valid until the next record is added. NULL if it is empty. */
static const uint8_t *batch_finish(struct batch *batch, size_t *length)
{
	uint64_t sequence = batch->resend.sequence + 1;

	if (!records_bytes(batch->records))
		return NULL;
	for (const struct closed_batch *c = batch->closed; c; c = c->next)
		sequence++;
	const uint8_t *data = records_finish(batch->records, sequence, batch->reset, length);
	batch->reset = false;
	return data;
}

/* Move the builder's records to the closed batches. */
static void batch_close(struct batch *batch)
{
	struct closed_batch *closed = NULL;
	size_t length;

	batch->hooks->before_close(batch->context);
	const size_t samples = records_samples(batch->records);
	const uint8_t *data = batch_finish(batch, &length);
	if (!data)
		return;
	const bool fits = batch->closed_bytes + length <= CLOSED_BYTES_MAX;
	if (fits)
		closed = malloc(sizeof(*closed) + length);
	if (!closed) {
		batch->error = fits ? -ENOMEM : -EMSGSIZE;
		batch->error_samples += samples;
		return;
	}
	batch->closed_bytes += length;
	*closed = (struct closed_batch){.length = length, .samples = samples};
	memcpy(closed->data, data, length);
	if (batch->closed_last)
		batch->closed_last->next = closed;
	else
		batch->closed = closed;
	batch->closed_last = closed;
}

static int batch_send(struct batch *batch, const uint8_t *data, size_t length)
{
	batch->sent_bytes += length;
	return resend_buffer_send(&batch->resend, batch->exporter, data, length,
				  clock_monotonic_ns());
}

/* Send the oldest closed batch, unless an error occurred before. Returns the number of samples that
 * are lost with it. */
static size_t batch_send_closed(struct batch *batch, int *error)
{
	struct closed_batch *closed = batch_take_closed(batch);

	if (!*error)
		*error = batch_send(batch, closed->data, closed->length);
	const size_t lost = *error < 0 ? closed->samples : 0;
	free(closed);
	return lost;
}

void batch_flush(struct batch *batch)
{
	size_t length, lost = batch->error_samples;
	int error = batch->error;

	batch->hooks->before_close(batch->context);
	while (batch->closed)
		lost += batch_send_closed(batch, &error);
	const size_t samples = records_samples(batch->records);
	const uint8_t *data = batch_finish(batch, &length);
	if (data && !error)
		error = batch_send(batch, data, length);
	batch->error = 0;
	batch->error_samples = 0;
	if (error >= 0)
		return;
	lost += samples;
	log_warning(
	    "cannot send a batch to the exporter, its samples are lost: samples=%zu error=%s", lost,
	    strerror(-error));
	batch->hooks->on_lost(batch->context, lost, error);
}

size_t batch_discard(struct batch *batch)
{
	size_t lost = batch->error_samples + records_samples(batch->records), length;

	if (records_bytes(batch->records))
		records_finish(batch->records, 0, false, &length);
	while (batch->closed) {
		struct closed_batch *closed = batch_take_closed(batch);

		lost += closed->samples;
		free(closed);
	}
	batch->error = 0;
	batch->error_samples = 0;
	batch->reset = true;
	return lost;
}

void batch_close_if_full(struct batch *batch)
{
	if (batch_is_full(batch))
		batch_close(batch);
}
