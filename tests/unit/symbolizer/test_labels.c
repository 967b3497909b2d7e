/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a runtime that stand for labels, up to the stacks that the exporter would receive. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/symbolizer/ignore_record.h"

enum {
	TGID = 42,
	SETS_MAX = 8,
};

/* What the exporter received. */
static struct {
	unsigned int stacks, sets;
	uint32_t frames, labels; /* of the last stack */
	char texts[SETS_MAX][64];
} sent;

IGNORE_RECORD(module)
IGNORE_RECORD(function)
IGNORE_RECORD(frame)
IGNORE_RECORD(process)
IGNORE_RECORD(thread)
IGNORE_RECORD(sample)

static int on_label_set(void *context, const struct record_label_set *set)
{
	(void)context;
	cr_assert_lt(set->id, SETS_MAX);
	sent.sets++;
	for (uint32_t i = 0; i < set->count; i++) {
		char *text = sent.texts[set->id];
		const size_t used = strlen(text);

		snprintf(text + used, sizeof(sent.texts[0]) - used, "%s=%s;", set->labels[i].key,
			 set->labels[i].value);
	}
	return 0;
}

static int on_stack(void *context, const struct record_stack *stack)
{
	(void)context;
	sent.stacks++;
	sent.frames = stack->count;
	sent.labels = stack->labels;
	return 0;
}

static int on_reset(void *context)
{
	(void)context;
	return 0;
}

static int on_send(enum message_type type, const void *payload, size_t length)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = ignore_module,
	    .function = ignore_function,
	    .frame = ignore_frame,
	    .label_set = on_label_set,
	    .stack = on_stack,
	    .process = ignore_process,
	    .thread = ignore_thread,
	    .sample = ignore_sample,
	};

	cr_assert_eq(type, MESSAGE_BATCH);
	cr_assert_eq(records_visit(payload, length, &visitor, NULL), 0);
	return 0;
}

FAKE_PEER(on_send);

static struct worker worker;
static bool are_readable;

enum names_due __wrap_runtimes_symbolize(struct worker *w, struct managed_process *process,
					 const uint64_t *words, struct named_frames *frames);

/* The second word is 0 in a frame with a function, and in one with labels it is the user. */
enum names_due __wrap_runtimes_symbolize(struct worker *w, struct managed_process *process,
					 const uint64_t *words, struct named_frames *frames)
{
	(void)w;
	(void)process;
	frames->count = frames->label_count = 0;
	frames->used = 0;
	if (!words[1]) {
		frames->frames[frames->count++] = (struct named_frame){.function = "f", .file = ""};
	} else if (are_readable) {
		frames->labels[frames->label_count++] = (struct named_label){"request", "a\n"};
		frames->labels[frames->label_count++] = (struct named_label){
		    "user", named_frames_format(frames, "%lu", (unsigned long)words[1])};
	}
	return are_readable || !words[1] ? NAMES_FINAL : NAMES_SOON;
}

static void setup(void)
{
	cr_assert_eq(worker_init(&worker, false), 0);
	are_readable = true;
}

static void teardown(void)
{
	worker_fini(&worker);
}

TestSuite(labels, .init = setup, .fini = teardown);

/* Gives the worker a sample with a function, labels, and another function. */
static void add(uint64_t user)
{
	const struct bh_sample header = {.time_ns = 1000000000,
					 .tgid = TGID,
					 .tid = TGID,
					 .user_count = 6,
					 .flags = BH_SAMPLE_MANAGED,
					 .comm = "test"};
	const uint64_t frame = bh_frame_managed(BH_RUNTIME_CPYTHON, 1, 1),
		       labels = bh_frame_managed(BH_RUNTIME_CPYTHON, 2, 1);
	const uint64_t frames[] = {frame, 0, labels, user, frame, 0};

	cr_assert(samples_add(&worker, &header, frames));
	batch_flush(&worker.batch);
}

Test(labels, belong_to_the_stack)
{
	add(7);
	cr_expect_eq(sent.frames, 2);
	cr_expect_eq(sent.labels, 1);
	cr_expect_str_eq(sent.texts[1], "request=a\\x0a;user=7;");
	add(8);
	cr_expect_eq(sent.labels, 2);
	cr_expect_str_eq(sent.texts[2], "request=a\\x0a;user=8;");
	add(7);
	cr_expect_eq(sent.stacks, 2);
	cr_expect_eq(sent.sets, 2);
}

Test(labels, that_cannot_be_read_are_left_out_until_they_can)
{
	are_readable = false;
	add(7);
	cr_expect_eq(sent.frames, 2);
	cr_expect_eq(sent.labels, 0);
	cr_expect_eq(sent.sets, 0);
	are_readable = true;
	add(7);
	cr_expect_eq(sent.stacks, 2);
	cr_expect_eq(sent.frames, 2);
	cr_expect_eq(sent.labels, 1);
}
