/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records/records.h"

/* The visited records as text, and the visit that returns an error. */
struct transcript {
	char text[8192];
	size_t used;
	unsigned int visits, stop_after;
	int stop_with;
};

static int note(struct transcript *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int note(struct transcript *t, const char *format, ...)
{
	va_list args;

	if (t->stop_with && t->visits == t->stop_after)
		return t->stop_with;
	t->visits++;
	va_start(args, format);
	int n = vsnprintf(t->text + t->used, sizeof(t->text) - t->used, format, args);
	va_end(args);
	t->used += (size_t)n < sizeof(t->text) - t->used ? (size_t)n : 0;
	return 0;
}

static int on_reset(void *t)
{
	return note(t, "reset\n");
}

static int on_module(void *t, const struct record_module *m)
{
	return note(t, "module %u %s %s %s %s\n", m->id, m->path, m->gnu_build_id, m->htlhash,
		    m->go_build_id);
}

static int on_function(void *t, const struct record_function *f)
{
	return note(t, "function %u %s %u%s%s%s\n", f->id, f->name, f->start_line,
		    f->name_is_generated ? " generated" : "", f->system_name[0] ? " " : "",
		    f->system_name);
}

static int on_frame(void *t, const struct record_frame *f)
{
	return note(t, "frame %u 0x%" PRIx64 " %u %u %u %u\n", f->id, f->address, f->module,
		    f->function, f->kind, f->caller);
}

static int on_stack(void *t, const struct record_stack *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->count; i++)
		sum += s->frames[i];
	return note(t, "stack %u %u %u %" PRIu64 " %u\n", s->id, s->reason, s->count, sum,
		    s->labels);
}

static int on_label_set(void *t, const struct record_label_set *s)
{
	int r = note(t, "labels %u:", s->id);

	for (uint32_t i = 0; i < s->count && !r; i++)
		r = note(t, " %s=%s", s->labels[i].key, s->labels[i].value);
	return r ? r : note(t, "\n");
}

static int on_process(void *t, const struct record_process *p)
{
	return note(t, "process %u %u %" PRIu64 " %s %s\n", p->id, p->tgid, p->start_ns, p->comm,
		    p->path);
}

static int on_thread(void *t, const struct record_thread *h)
{
	return note(t, "thread %u %u %u %s\n", h->id, h->process, h->tid, h->comm);
}

static int on_sample(void *t, const struct record_sample *s)
{
	return note(t, "sample %" PRIu64 " %u %u %u %" PRIx64 "\n", s->time_ns, s->stack, s->thread,
		    s->cpu, s->goroutine);
}

static const struct records_visitor visitor = {on_reset,   on_module,	 on_function,
					       on_frame,   on_label_set, on_stack,
					       on_process, on_thread,	 on_sample};

static const char expected[] = "module 1 /usr/bin/x 00ff 1234 go/id\n"
			       "module 2    \n"
			       "function 7 main 31 _Z4mainv\n"
			       "function 8 x+0x10 0 generated\n"
			       "frame 4294967295 0xffffffffffffffff 2 7 255 9\n"
			       "frame 9 0x10 1 0 0 0\n"
			       "labels 1: request=checkout empty=\n"
			       "labels 2:\n"
			       "stack 5 3 3 60 1\n"
			       "stack 6 0 0 0 0\n"
			       "process 3 42 18446744073709551615 comm /path with space\n"
			       "thread 8 3 43 thread\n"
			       "sample 1000 5 8 0 0\n"
			       "sample 2000 6 8 65535 fedc87654321\n";

/* Adds one record of each kind, in another order than that in which they are visited. */
static void fill(struct records *r)
{
	const uint32_t frames[] = {10, 20, 30};
	const struct record_label labels[] = {{"request", "checkout"}, {"empty", ""}};

	records_add_sample(r, &(struct record_sample){1000, 5, 8, 0, 0});
	records_add_thread(r, &(struct record_thread){8, 3, 43, "thread"});
	records_add_process(r, &(struct record_process){3, 42, UINT64_MAX, "comm",
							"/path with space", "", "", NULL, 0});
	records_add_stack(r, &(struct record_stack){5, 3, frames, 3, 1});
	records_add_stack(r, &(struct record_stack){6, 0, NULL, 0, 0});
	records_add_label_set(r, &(struct record_label_set){1, labels, 2});
	records_add_label_set(r, &(struct record_label_set){2, NULL, 0});
	records_add_frame(r, &(struct record_frame){UINT64_MAX, UINT32_MAX, 2, 7, 12, 255, 9});
	records_add_frame(r, &(struct record_frame){16, 9, 1, 0, 0, 0, 0});
	records_add_function(r, &(struct record_function){7, "main", "", 31, false, "_Z4mainv"});
	records_add_function(r, &(struct record_function){8, "x+0x10", "", 0, true, NULL});
	records_add_module(r, &(struct record_module){1, "/usr/bin/x", "00ff", "1234", "go/id"});
	records_add_module(r, &(struct record_module){2, "", "", "", ""});
	records_add_sample(r, &(struct record_sample){2000, 6, 8, UINT16_MAX, 0xfedc87654321});
}

/* Visits a copy that ends where the batch ends, aligned as records_visit() requires, so that the
 * sanitizer detects a read beyond its end. */
static int visit_copy(const uint8_t *data, size_t length, struct transcript *t)
{
	uint8_t *copy = malloc(length ? length : 1);

	memcpy(copy, data, length);
	int r = records_visit(copy, length, &visitor, t);
	free(copy);
	return r;
}

Test(records, round_trip)
{
	struct records *r = records_new();
	struct transcript t = {0};
	size_t length;

	fill(r);
	cr_assert_eq(records_samples(r), 2);
	const size_t estimate = records_bytes(r);
	const uint8_t *batch = records_finish(r, &(struct record_head){.sequence = 1}, &length);
	cr_assert_leq(length, estimate, "estimated as %zu, is %zu", estimate, length);
	cr_assert_eq(visit_copy(batch, length, &t), 0);
	cr_assert_str_eq(t.text, expected);
	records_free(r);
}

Test(records, can_be_used_repeatedly)
{
	struct records *r = records_new();
	size_t length, first = 0;

	for (int i = 0; i < 5; i++) {
		struct transcript t = {0};

		cr_assert_eq(records_bytes(r), 0);
		cr_assert_eq(records_samples(r), 0);
		fill(r);
		const uint8_t *batch =
		    records_finish(r, &(struct record_head){.sequence = 1}, &length);
		cr_assert_eq(visit_copy(batch, length, &t), 0);
		cr_assert_str_eq(t.text, expected, "nothing of the batch before");
		if (!first)
			first = length;
		cr_assert_eq(length, first);
	}
	records_free(r);
}

Test(records, reset_comes_first)
{
	struct records *r = records_new();
	struct transcript t = {0};
	size_t length;

	fill(r);
	const uint8_t *batch =
	    records_finish(r, &(struct record_head){.sequence = 1, .reset = true}, &length);
	cr_assert_eq(visit_copy(batch, length, &t), 0);
	cr_assert_eq(strncmp(t.text, "reset\n", 6), 0);
	cr_assert_str_eq(t.text + 6, expected);
	records_free(r);
}

Test(records, empty_batches)
{
	struct records *r = records_new();
	struct transcript t = {0};
	size_t length;

	const uint8_t *batch = records_finish(r, &(struct record_head){.sequence = 1}, &length);
	cr_assert_eq(visit_copy(batch, length, &t), 0);
	batch = records_finish(r, &(struct record_head){.sequence = 1, .reset = true}, &length);
	cr_assert_eq(visit_copy(batch, length, &t), 0);
	cr_assert_str_eq(t.text, "reset\n");
	records_free(r);
}

Test(records, estimate_is_never_less)
{
	struct records *r = records_new();
	uint32_t frames[700];
	char name[300];
	size_t length;

	memset(frames, 0, sizeof(frames));
	for (unsigned int seed = 1; seed < 200; seed++) {
		for (unsigned int i = 0; i < seed && records_bytes(r) < 56000; i++) {
			const unsigned int n = i * seed * 7919 % 299;

			memset(name, 'n', n);
			name[n] = 0;
			records_add_function(
			    r, &(struct record_function){i, name, "", 0, false, name});
			records_add_module(r, &(struct record_module){i, name, "", name, name});
			records_add_stack(r,
					  &(struct record_stack){i, 0, frames, i * seed % 700, 0});
			records_add_frame(r, &(struct record_frame){.id = i});
			records_add_thread(r, &(struct record_thread){i, 0, 0, name});
			if (i % 3)
				records_add_sample(r, &(struct record_sample){0});
		}
		const size_t estimate = records_bytes(r);
		cr_assert(records_finish(r, &(struct record_head){.sequence = 1}, &length));
		cr_assert_leq(length, RECORDS_BYTES_MAX);
		cr_assert_leq(length, estimate, "seed %u: estimated as %zu, is %zu", seed, estimate,
			      length);
	}
	records_free(r);
}

/* Adds records of one kind, number `kind`, each as small as it can be. */
static void add_smallest(struct records *r, unsigned int kind)
{
	switch (kind) {
	case 0:
		records_add_module(r, &(struct record_module){0, "", "", "", ""});
		break;
	case 1:
		records_add_function(r, &(struct record_function){.name = ""});
		break;
	case 2:
		records_add_frame(r, &(struct record_frame){0});
		break;
	case 3:
		records_add_label_set(r, &(struct record_label_set){0});
		break;
	case 4:
		records_add_stack(r, &(struct record_stack){0});
		break;
	case 5:
		records_add_process(r, &(struct record_process){.comm = "", .path = ""});
		break;
	case 6:
		records_add_thread(r, &(struct record_thread){.comm = ""});
		break;
	default:
		records_add_sample(r, &(struct record_sample){0});
	}
}

/* A batch with more than fits is refused as a whole. The next one is as if there had been none. */
Test(records, more_than_a_batch)
{
	struct records *r = records_new();
	static char name[RECORDS_BYTES_MAX + 1];
	size_t length;

	memset(name, 'n', RECORDS_BYTES_MAX);
	for (unsigned int kind = 0; kind < 10; kind++) {
		struct transcript t = {0};

		if (kind == 8)
			records_add_module(r, &(struct record_module){1, name, "", "", ""});
		else if (kind == 9)
			for (unsigned int i = 0; i < 16; i++)
				records_add_thread(r,
						   &(struct record_thread){.comm = name + 56000});
		else
			for (unsigned int i = 0; i < RECORDS_BYTES_MAX / 8; i++)
				add_smallest(r, kind);
		cr_assert_leq(records_bytes(r), RECORDS_BYTES_MAX);
		cr_assert_null(records_finish(r, &(struct record_head){.sequence = 1}, &length),
			       "kind %u", kind);
		cr_assert_eq(records_bytes(r), 0);
		fill(r);
		const uint8_t *batch =
		    records_finish(r, &(struct record_head){.sequence = 2}, &length);
		cr_assert(batch);
		cr_assert_eq(visit_copy(batch, length, &t), 0);
		cr_assert_str_eq(t.text, expected);
	}
	records_free(r);
}

Test(records, an_error_of_the_visitor_ends_the_visit)
{
	struct records *r = records_new();
	size_t length;

	fill(r);
	const uint8_t *batch =
	    records_finish(r, &(struct record_head){.sequence = 1, .reset = true}, &length);
	for (unsigned int after = 0; after < 12; after++) {
		struct transcript t = {.stop_after = after, .stop_with = -ENOSPC};

		cr_assert_eq(visit_copy(batch, length, &t), -ENOSPC);
		cr_assert_eq(t.visits, after);
	}
	records_free(r);
}

Test(records, cut_batches)
{
	struct records *r = records_new();
	size_t length;
	unsigned int refused = 0;

	fill(r);
	const uint8_t *batch = records_finish(r, &(struct record_head){.sequence = 1}, &length);
	for (size_t cut = 0; cut < length; cut++) {
		struct transcript t = {0};

		if (visit_copy(batch, cut, &t) == -EBADMSG) {
			refused++;
			cr_assert_eq(t.visits, 0, "nothing was visited");
		}
	}
	cr_assert_gt(refused, length * 9 / 10);
	records_free(r);
}

/* With any byte changed, the batch is refused or visited, and nothing outside of it is read. */
Test(records, forged_bytes)
{
	static const uint8_t values[] = {0, 1, 4, 0x7f, 0x80, 0xfc, 0xff};
	struct records *r = records_new();
	size_t length;

	fill(r);
	const uint8_t *batch = records_finish(r, &(struct record_head){.sequence = 1}, &length);
	uint8_t *forged = malloc(length);
	for (size_t at = 0; at < length; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			struct transcript t = {0};

			memcpy(forged, batch, length);
			forged[at] = values[v];
			int result = records_visit(forged, length, &visitor, &t);
			cr_assert(result == 0 || (result == -EBADMSG && !t.visits));
		}
	}
	free(forged);
	records_free(r);
}
