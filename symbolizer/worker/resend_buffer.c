/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/resend_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/time_units.h"
#include "symbolizer/worker/limits.h"

enum {
	WORKER_BITS = 32 /* of a sequence number: the upper half identifies the worker */
};

struct resend_batch {
	struct resend_batch *next;
	uint64_t sequence, sent_ns;
	size_t length;
	uint8_t data[];
};

int resend_buffer_init(struct resend_buffer *buffer, bool keep)
{
	uint32_t worker;

	if (getrandom(&worker, sizeof(worker), 0) != (ssize_t)sizeof(worker))
		return -EIO;
	*buffer = (struct resend_buffer){
	    .first_sequence = (uint64_t)worker << WORKER_BITS, .keep = keep, .connected = !keep};
	buffer->sequence = buffer->first_sequence;
	return 0;
}

static void resend_buffer_drop_first(struct resend_buffer *buffer)
{
	struct resend_batch *batch = buffer->first;

	buffer->first = batch->next;
	if (!buffer->first)
		buffer->last = NULL;
	buffer->bytes -= batch->length;
	free(batch);
}

void resend_buffer_fini(struct resend_buffer *buffer)
{
	while (buffer->first)
		resend_buffer_drop_first(buffer);
}

/* Drops the batches that an exporter must have read by now. */
static void resend_buffer_trim(struct resend_buffer *buffer, uint64_t now_ns)
{
	while (buffer->first && (buffer->bytes > LIMIT_RESEND_BYTES ||
				 now_ns - buffer->first->sent_ns > LIMIT_RESEND_MS * NS_PER_MS))
		resend_buffer_drop_first(buffer);
}

static int resend_buffer_keep(struct resend_buffer *buffer, const uint8_t *data, size_t length,
			      uint64_t now_ns)
{
	if (!buffer->connected && buffer->bytes + length > 2ull * LIMIT_RESEND_BYTES)
		return -ENOBUFS;
	struct resend_batch *batch = malloc(sizeof(*batch) + length);
	if (!batch)
		return -ENOMEM;
	*batch = (struct resend_batch){
	    .sequence = buffer->sequence + 1, .sent_ns = now_ns, .length = length};
	memcpy(batch->data, data, length);
	if (buffer->last)
		buffer->last->next = batch;
	else
		buffer->first = batch;
	buffer->last = batch;
	buffer->bytes += length;
	return 0;
}

int resend_buffer_send(struct resend_buffer *buffer, struct peer *exporter, const uint8_t *data,
		       size_t length, uint64_t now_ns)
{
	int r = 0;

	if (buffer->connected)
		r = peer_send(exporter, MESSAGE_BATCH, data, length, NULL, 0);
	if (buffer->keep && (!r || r == -EPIPE)) {
		const int kept = resend_buffer_keep(buffer, data, length, now_ns);

		/* What was sent is not lost. It cannot be sent again, so nothing before it is,
		 * either: the next exporter then asks for all definitions. */
		if (kept < 0 && buffer->connected && !r)
			resend_buffer_fini(buffer);
		else
			r = kept;
		if (buffer->connected)
			resend_buffer_trim(buffer, now_ns);
	}
	buffer->sequence++;
	return r;
}

bool resend_buffer_resume(struct resend_buffer *buffer, struct peer *exporter, uint64_t sequence)
{
	const bool is_ours = sequence >> WORKER_BITS == buffer->first_sequence >> WORKER_BITS;
	const uint64_t after = is_ours ? sequence : buffer->first_sequence;
	const bool complete =
	    buffer->first ? buffer->first->sequence <= after + 1 && after <= buffer->sequence
			  : after == buffer->sequence;

	while (buffer->first && (!complete || buffer->first->sequence <= after))
		resend_buffer_drop_first(buffer);
	buffer->connected = true;
	for (const struct resend_batch *b = buffer->first; b; b = b->next)
		peer_send(exporter, MESSAGE_BATCH, b->data, b->length, NULL, 0);
	return complete;
}

void resend_buffer_disconnect(struct resend_buffer *buffer)
{
	buffer->connected = false;
}

bool resend_buffer_is_full(const struct resend_buffer *buffer)
{
	return !buffer->connected && buffer->bytes > LIMIT_RESEND_BYTES;
}
