/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the exporter's reader of batches, which a compromised worker may have made. The input is a
 * sequence of batches, each after its length (2 bytes, little endian). For any input, each sample
 * is exported once or lost once, and the profile is valid.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cursor.h"
#include "exporter/limits.h"
#include "exporter/model/aggregate.h"
#include "records/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* Tables by id may take 224 MiB. ASan keeps little of the freed memory of earlier inputs, so that
 * libFuzzer's limit of memory is not reached. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=8";
}

/* Far below the real limit, so that inputs also fill the profile. */
enum {
	PROFILE_BYTES_MAX = 1 << 20
};

/* Counts of the records, made by a visitor of its own, which reads every byte of each record. */
struct census {
	uint64_t samples, visits, sum;
};

static int count_text(struct census *c, const char *text)
{
	c->visits++;
	c->sum += strlen(text);
	return 0;
}

static int on_reset(void *c)
{
	return count_text(c, "");
}

static int on_module(void *c, const struct record_module *m)
{
	count_text(c, m->path);
	count_text(c, m->gnu_build_id);
	count_text(c, m->go_build_id);
	return count_text(c, m->htlhash);
}

static int on_function(void *c, const struct record_function *f)
{
	return count_text(c, f->name);
}

static int on_frame(void *c, const struct record_frame *f)
{
	((struct census *)c)->sum += f->address + f->kind;
	return count_text(c, "");
}

static int on_stack(void *c, const struct record_stack *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		((struct census *)c)->sum += s->frames[i];
	return count_text(c, "");
}

static int on_label_set(void *c, const struct record_label_set *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		count_text(c, s->labels[i].key);
		count_text(c, s->labels[i].value);
	}
	return count_text(c, "");
}

static int on_process(void *c, const struct record_process *p)
{
	count_text(c, p->path);
	return count_text(c, p->comm);
}

static int on_thread(void *c, const struct record_thread *t)
{
	return count_text(c, t->comm);
}

static int on_sample(void *c, const struct record_sample *s)
{
	((struct census *)c)->samples++;
	((struct census *)c)->sum += s->time_ns;
	return count_text(c, "");
}

static const struct records_visitor visitor = {on_reset,   on_module,	 on_function,
					       on_frame,   on_label_set, on_stack,
					       on_process, on_thread,	 on_sample};

static void check(const struct aggregate *a, uint64_t sent)
{
	uint64_t lost = 0, held = 0;

	for (int i = 0; i < LOSS_COUNT; i++)
		lost += a->losses.lost[i];
	for (uint32_t i = 0; i < a->profile.samples_count; i++) {
		const struct profile_sample *s = &a->profile.samples[i];

		held += s->count;
		if (!s->thread || s->thread >= a->profile.threads_count ||
		    s->stack >= a->profile.stacks_count)
			abort();
	}
	if (a->exported + lost != sent || held != a->exported || a->profile.sample_count != held)
		abort();
	if (a->frames_named > a->frames_total || a->profile.bytes > a->profile.bytes_max)
		abort();
}

/* Delivers a copy that ends where the batch ends, so that ASan finds a read beyond its end. */
static void feed(struct aggregate *a, const uint8_t *data, size_t length, uint64_t *sent)
{
	struct census census = {0};
	uint8_t *batch = malloc(length ? length : 1);

	if (!batch)
		abort();
	memcpy(batch, data, length);
	int r = records_visit(batch, length, &visitor, &census);
	if ((r && r != -EBADMSG) || (r && census.visits))
		abort();
	*sent += census.samples;
	if (aggregate_batch(a, batch, length) != r)
		abort();
	free(batch);
	check(a, *sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_init(data, size);
	struct aggregate a;
	uint64_t sent = 0;

	if (aggregate_init(&a, LIMIT_PROFILE_BYTES))
		abort();
	a.profile.bytes_max = PROFILE_BYTES_MAX;
	while (cursor_left(&c)) {
		size_t length = cursor_u16(&c);

		if (length > cursor_left(&c))
			length = cursor_left(&c);
		const uint8_t *batch = cursor_take(&c, length);
		if (batch)
			feed(&a, batch, length, &sent);
	}
	aggregate_fini(&a);
	return 0;
}
