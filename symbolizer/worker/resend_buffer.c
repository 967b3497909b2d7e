/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/resend_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/limits.h"

enum {
	WINDOW_RUN_BITS = 32
};

struct resend_batch {
	struct resend_batch *next;
	uint64_t sequence, sent_ns;
	size_t length;
	uint8_t data[];
};

int resend_buffer_init(struct resend_buffer *window, bool keeps)
{
	uint32_t run;

	if (getrandom(&run, sizeof(run), 0) != (ssize_t)sizeof(run))
		return -EIO;
	*window = (struct resend_buffer){
	    .run = (uint64_t)run << WINDOW_RUN_BITS, .keeps = keeps, .open = !keeps};
	window->sequence = window->run;
	return 0;
}

static void resend_buffer_drop_first(struct resend_buffer *window)
{
	struct resend_batch *batch = window->first;

	window->first = batch->next;
	if (!window->first)
		window->last = NULL;
	window->bytes -= batch->length;
	free(batch);
}

/* What an exporter that reads has long since read. */
static void resend_buffer_trim(struct resend_buffer *window, uint64_t now_ns)
{
	while (window->first && (window->bytes > LIMIT_RESEND_BYTES ||
				 now_ns - window->first->sent_ns > LIMIT_RESEND_MS * 1000000ull))
		resend_buffer_drop_first(window);
}

static int resend_buffer_keep(struct resend_buffer *window, const uint8_t *data, size_t length,
			      uint64_t now_ns)
{
	if (!window->open && window->bytes + length > 2ull * LIMIT_RESEND_BYTES)
		return -ENOBUFS;
	struct resend_batch *batch = malloc(sizeof(*batch) + length);
	if (!batch)
		return -ENOMEM;
	*batch = (struct resend_batch){
	    .sequence = window->sequence + 1, .sent_ns = now_ns, .length = length};
	memcpy(batch->data, data, length);
	if (window->last)
		window->last->next = batch;
	else
		window->first = batch;
	window->last = batch;
	window->bytes += length;
	return 0;
}

int resend_buffer_send(struct resend_buffer *window, struct peer *exporter, const uint8_t *data,
		       size_t length, uint64_t now_ns)
{
	int r = 0;

	if (window->open)
		r = peer_send(exporter, MESSAGE_BATCH, data, length, NULL, 0);
	if (window->keeps && (!r || r == -EPIPE)) {
		r = resend_buffer_keep(window, data, length, now_ns);
		if (window->open)
			resend_buffer_trim(window, now_ns);
	}
	window->sequence++;
	return r;
}

bool resend_buffer_resume(struct resend_buffer *window, struct peer *exporter, uint64_t sequence)
{
	const uint64_t after =
	    sequence >> WINDOW_RUN_BITS == window->run >> WINDOW_RUN_BITS ? sequence : window->run;
	const bool whole = window->first
			       ? window->first->sequence <= after + 1 && after <= window->sequence
			       : after == window->sequence;

	while (window->first && (!whole || window->first->sequence <= after))
		resend_buffer_drop_first(window);
	window->open = true;
	for (const struct resend_batch *b = window->first; b; b = b->next)
		peer_send(exporter, MESSAGE_BATCH, b->data, b->length, NULL, 0);
	return whole;
}

void resend_buffer_shut(struct resend_buffer *window)
{
	window->open = false;
}

bool resend_buffer_full(const struct resend_buffer *window)
{
	return !window->open && window->bytes > LIMIT_RESEND_BYTES;
}
