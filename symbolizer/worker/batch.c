/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "symbolizer/worker/limits.h"
#include "common/log.h"

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

/* Sends the records so far. After an error they are dropped, until the next flush reports it. */
static void batch_send(struct batch *batch)
{
	size_t length;

	batch->hooks->before_send(batch->context);
	if (!records_bytes(batch->records))
		return;
	const size_t samples = records_samples(batch->records);
	const struct record_head head = {.sequence = batch->resend.sequence + 1,
					 .position = batch->sent_samples,
					 .reset = batch->reset};
	const uint8_t *data = records_finish(batch->records, &head, &length);
	batch->reset = false;
	if (!data && !batch->error)
		batch->error = -EMSGSIZE;
	if (!batch->error) {
		batch->sent_bytes += length;
		batch->error = resend_buffer_send(&batch->resend, batch->exporter, data, length,
						  clock_monotonic_ns());
		if (!batch->error)
			batch->sent_samples += samples;
	}
	if (batch->error)
		batch->error_samples += samples;
}

uint64_t batch_position(const struct batch *batch)
{
	return batch->sent_samples + records_samples(batch->records);
}

void batch_flush(struct batch *batch)
{
	batch_send(batch);
	const int error = batch->error;
	const size_t lost = batch->error_samples;
	batch->error = 0;
	batch->error_samples = 0;
	if (!error)
		return;
	log_warning(
	    "cannot send a batch to the exporter, its samples are lost: samples=%zu error=%s", lost,
	    strerror(-error));
	batch->hooks->on_lost(batch->context, lost, error);
}

size_t batch_discard(struct batch *batch)
{
	const size_t lost = batch->error_samples + records_samples(batch->records);
	size_t length;

	if (records_bytes(batch->records))
		records_finish(batch->records, &(struct record_head){0}, &length);
	batch->error = 0;
	batch->error_samples = 0;
	batch->reset = true;
	return lost;
}

void batch_send_if_full(struct batch *batch)
{
	if (batch_is_full(batch))
		batch_send(batch);
}
