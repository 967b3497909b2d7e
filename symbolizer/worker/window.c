/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/limits.h"

enum {
	WINDOW_RUN_BITS = 32
};

struct window_batch {
	struct window_batch *next;
	uint64_t sequence, sent_ns;
	size_t length;
	uint8_t data[];
};

int window_init(struct window *window, bool keeps)
{
	uint32_t run;

	if (getrandom(&run, sizeof(run), 0) != (ssize_t)sizeof(run))
		return -EIO;
	*window = (struct window){
	    .run = (uint64_t)run << WINDOW_RUN_BITS, .keeps = keeps, .open = !keeps};
	window->sequence = window->run;
	return 0;
}

static void window_drop_first(struct window *window)
{
	struct window_batch *batch = window->first;

	window->first = batch->next;
	if (!window->first)
		window->last = NULL;
	window->bytes -= batch->length;
	free(batch);
}

/* What an exporter that reads has long since read. */
static void window_trim(struct window *window, uint64_t now_ns)
{
	while (window->first && (window->bytes > LIMIT_WINDOW_BYTES ||
				 now_ns - window->first->sent_ns > LIMIT_WINDOW_MS * 1000000ull))
		window_drop_first(window);
}

static int window_keep(struct window *window, const uint8_t *data, size_t length, uint64_t now_ns)
{
	if (!window->open && window->bytes + length > 2ull * LIMIT_WINDOW_BYTES)
		return -ENOBUFS;
	struct window_batch *batch = malloc(sizeof(*batch) + length);
	if (!batch)
		return -ENOMEM;
	*batch = (struct window_batch){
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

int window_send(struct window *window, struct peer *exporter, const uint8_t *data, size_t length,
		uint64_t now_ns)
{
	int r = 0;

	if (window->open)
		r = peer_send(exporter, MESSAGE_BATCH, data, length, NULL, 0);
	if (window->keeps && (!r || r == -EPIPE)) {
		r = window_keep(window, data, length, now_ns);
		if (window->open)
			window_trim(window, now_ns);
	}
	window->sequence++;
	return r;
}

bool window_resume(struct window *window, struct peer *exporter, uint64_t sequence)
{
	const uint64_t after =
	    sequence >> WINDOW_RUN_BITS == window->run >> WINDOW_RUN_BITS ? sequence : window->run;
	const bool whole = window->first
			       ? window->first->sequence <= after + 1 && after <= window->sequence
			       : after == window->sequence;

	while (window->first && (!whole || window->first->sequence <= after))
		window_drop_first(window);
	window->open = true;
	for (const struct window_batch *b = window->first; b; b = b->next)
		peer_send(exporter, MESSAGE_BATCH, b->data, b->length, NULL, 0);
	return whole;
}

void window_shut(struct window *window)
{
	window->open = false;
}

bool window_full(const struct window *window)
{
	return !window->open && window->bytes > LIMIT_WINDOW_BYTES;
}
