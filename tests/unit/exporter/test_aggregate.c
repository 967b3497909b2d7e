/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of an incorrect worker: for any contents, each sample is either exported once or lost
 * once. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/frame_kind.h"
#include "exporter/limits.h"
#include "exporter/model/aggregate.h"
#include "ipc/losses.h"
#include "records/records.h"
#include "tests/support/failing_memory.h"

FAILING_MEMORY;

/* The limit of aggregate.c: ids from this one on are refused. */
enum {
	IDS_MAX = 1 << 20
};

struct fixture {
	struct aggregate aggregate;
	struct records *records;
	uint64_t sent;
};

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	cr_assert(f && aggregate_init(&f->aggregate, LIMIT_PROFILE_BYTES) == 0);
	f->records = records_new();
	return f;
}

static uint64_t lost(const struct fixture *f)
{
	return losses_total(&f->aggregate.losses);
}

/* Checks the invariants that hold after any batch. */
static void check(const struct fixture *f)
{
	const struct profile *p = &f->aggregate.profile;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->samples_count; i++) {
		sum += p->samples[i].count;
		cr_assert_lt(p->samples[i].stack, p->stacks_count);
		cr_assert_lt(p->samples[i].thread, p->threads_count);
		cr_assert_neq(p->samples[i].thread, 0);
	}
	cr_assert_eq(f->aggregate.exported + lost(f), f->sent, "%lu exported, %lu lost, %lu sent",
		     (unsigned long)f->aggregate.exported, (unsigned long)lost(f),
		     (unsigned long)f->sent);
	cr_assert_eq(p->sample_count, f->aggregate.exported);
	cr_assert_eq(sum, f->aggregate.exported);
}

static int deliver(struct fixture *f, bool reset)
{
	size_t length;

	f->sent += records_samples(f->records);
	const uint8_t *batch = records_finish(
	    f->records, &(struct record_head){.sequence = 1, .reset = reset}, &length);
	int r = aggregate_batch(&f->aggregate, batch, length);
	check(f);
	return r;
}

static void fixture_free(struct fixture *f)
{
	check(f);
	aggregate_fini(&f->aggregate);
	records_free(f->records);
	free(f);
}

static void add_frame(struct fixture *f, uint32_t id, uint32_t module, uint32_t function,
		      uint8_t kind)
{
	records_add_frame(
	    f->records,
	    &(struct record_frame){
		.address = id, .id = id, .module = module, .function = function, .kind = kind});
}

/* A function that is inlined at the address `address`. */
static void add_inlined(struct fixture *f, uint32_t id, uint64_t address, uint32_t caller)
{
	records_add_frame(f->records,
			  &(struct record_frame){.address = address, .id = id, .caller = caller});
}

static void add_stack(struct fixture *f, uint32_t id, uint8_t reason, const uint32_t *frames,
		      uint32_t count)
{
	records_add_stack(f->records, &(struct record_stack){id, reason, frames, count, 0});
}

static void add_thread(struct fixture *f, uint32_t id, uint32_t process)
{
	records_add_process(f->records, &(struct record_process){process, 100 + process, 5, "comm",
								 "/bin/x", "", "", NULL, 0});
	records_add_thread(f->records, &(struct record_thread){id, process, 200 + id, "thread"});
}

static void add_samples(struct fixture *f, uint32_t stack, uint32_t thread, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		records_add_sample(f->records, &(struct record_sample){i, stack, thread, 0, 0});
}

/* Defines frame 1, stack 1 with it, and thread 1. */
static void add_sound(struct fixture *f)
{
	records_add_module(f->records, &(struct record_module){1, "/bin/x", "00", "11", "go"});
	records_add_function(f->records, &(struct record_function){1, "main", "", 0, false, ""});
	add_frame(f, 1, 1, 1, FRAME_KIND_NATIVE);
	add_stack(f, 1, 0, &(const uint32_t){1}, 1);
	add_thread(f, 1, 1);
}

Test(aggregate, a_generated_name_does_not_count_as_a_symbol)
{
	struct fixture *f = fixture_new();

	records_add_function(f->records, &(struct record_function){1, "x+0x10", "", 0, true, ""});
	add_frame(f, 1, 0, 1, FRAME_KIND_NATIVE);
	add_stack(f, 1, 0, &(const uint32_t){1}, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.frames_total, 1);
	cr_assert_eq(f->aggregate.frames_named, 0);
	cr_assert(f->aggregate.profile.functions[1].name_is_generated);
	fixture_free(f);
}

Test(aggregate, a_function_has_the_name_that_the_linker_knows)
{
	struct fixture *f = fixture_new();

	records_add_function(f->records,
			     &(struct record_function){1, "a::b", "/a.cc", 7, false, "_ZN1a1bEv"});
	add_frame(f, 1, 0, 1, FRAME_KIND_NATIVE);
	add_stack(f, 1, 0, &(const uint32_t){1}, 1);
	cr_assert_eq(deliver(f, false), 0);
	const struct profile *profile = &f->aggregate.profile;
	const struct profile_function *function = &profile->functions[1];
	cr_expect_str_eq(profile->strings[function->name], "a::b");
	cr_expect_str_eq(profile->strings[function->system_name], "_ZN1a1bEv");
	cr_expect_str_eq(profile->strings[function->filename], "/a.cc");
	cr_expect_eq(function->start_line, 7);
	fixture_free(f);
}

Test(aggregate, a_stack_has_the_labels_of_its_set)
{
	struct fixture *f = fixture_new();
	const struct record_label labels[] = {{"user", "7"}, {"request", "a b"}};
	const uint32_t frame = 1;

	add_sound(f);
	records_add_label_set(f->records, &(struct record_label_set){3, labels, 2});
	records_add_stack(f->records, &(struct record_stack){2, 0, &frame, 1, 3});
	/* Nobody has defined this set. */
	records_add_stack(f->records, &(struct record_stack){3, 0, &frame, 1, 4});
	add_samples(f, 1, 1, 1);
	add_samples(f, 2, 1, 2);
	add_samples(f, 3, 1, 4);
	cr_assert_eq(deliver(f, false), 0);
	const struct profile *p = &f->aggregate.profile;

	cr_assert_eq(p->samples_count, 2);
	cr_expect_eq(p->samples[0].count, 5);
	cr_expect_eq(p->stacks[p->samples[0].stack].labels, 0);
	cr_expect_eq(p->samples[1].count, 2);
	const struct profile_label_set *set = &p->label_sets[p->stacks[p->samples[1].stack].labels];

	cr_assert_eq(set->count, 2);
	cr_expect_str_eq(p->strings[p->labels[set->labels[0]].key], "user");
	cr_expect_str_eq(p->strings[p->labels[set->labels[1]].value], "a b");
	/* The ids of a set end with the others. */
	add_sound(f);
	records_add_stack(f->records, &(struct record_stack){2, 0, &frame, 1, 3});
	add_samples(f, 2, 1, 1);
	cr_assert_eq(deliver(f, true), 0);
	cr_expect_eq(p->samples[0].count, 6);
	fixture_free(f);
}

static void expect_label(const struct profile *p, uint32_t sample, uint32_t at, const char *key,
			 const char *value)
{
	const struct profile_label_set *set =
	    &p->label_sets[p->stacks[p->samples[sample].stack].labels];

	cr_assert_lt(at, set->count);
	cr_expect_str_eq(p->strings[p->labels[set->labels[at]].key], key);
	cr_expect_str_eq(p->strings[p->labels[set->labels[at]].value], value);
}

/* The stack itself has none, so that all goroutines share it. */
Test(aggregate, a_sample_has_its_goroutine_as_a_label)
{
	struct fixture *f = fixture_new();
	const struct record_label labels[] = {{"user", "7"}, {"goroutine.id", "of the program"}};
	const uint32_t frame = 1;

	add_sound(f);
	records_add_label_set(f->records, &(struct record_label_set){3, labels, 2});
	records_add_stack(f->records, &(struct record_stack){2, 0, &frame, 1, 3});
	add_samples(f, 1, 1, 1);
	records_add_sample(f->records, &(struct record_sample){1, 1, 1, 0, 17});
	records_add_sample(f->records, &(struct record_sample){2, 1, 1, 0, RECORD_GOROUTINE_MAX});
	records_add_sample(f->records, &(struct record_sample){3, 2, 1, 0, 17});
	records_add_sample(f->records, &(struct record_sample){4, 1, 1, 0, 17});
	cr_assert_eq(deliver(f, false), 0);
	const struct profile *p = &f->aggregate.profile;

	cr_assert_eq(p->samples_count, 4);
	cr_expect_eq(p->stacks[p->samples[0].stack].labels, 0);
	cr_expect_eq(p->samples[1].count, 2);
	expect_label(p, 1, 0, "goroutine.id", "17");
	expect_label(p, 2, 0, "goroutine.id", "281474976710655");
	expect_label(p, 3, 0, "user", "7");
	expect_label(p, 3, 1, "goroutine.id", "17");
	cr_expect_eq(p->stacks[p->samples[3].stack].plain, p->samples[0].stack);
	fixture_free(f);
}

Test(aggregate, valid_batches_are_exported)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_samples(f, 1, 1, 10);
	cr_assert_eq(deliver(f, false), 0);
	add_samples(f, 1, 1, 5);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 15);
	cr_assert_eq(f->aggregate.profile.samples_count, 1);
	cr_assert_eq(f->aggregate.frames_total, 1);
	cr_assert_eq(f->aggregate.frames_named, 1);
	const struct profile *p = &f->aggregate.profile;
	cr_assert_eq(p->mappings_count, 2);
	cr_assert_str_eq(p->strings[p->mappings[1].filename], "/bin/x");
	cr_assert_str_eq(p->strings[p->mappings[1].gnu_build_id], "00");
	cr_assert_str_eq(p->strings[p->mappings[1].htlhash], "11");
	cr_assert_str_eq(p->strings[p->mappings[1].go_build_id], "go");
	fixture_free(f);
}

/* In OTLP, a mapping without htlhash has no attributes in a request. */
Test(aggregate, modules_without_htlhash_get_no_build_ids)
{
	struct fixture *f = fixture_new();
	const struct profile *p = &f->aggregate.profile;

	records_add_module(f->records, &(struct record_module){1, "/bin/x", "00", "", "go"});
	records_add_module(f->records, &(struct record_module){2, "/bin/x", "", "", ""});
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(p->mappings_count, 2);
	cr_assert_eq(p->mappings[1].gnu_build_id + p->mappings[1].go_build_id, 0);
	fixture_free(f);
}

Test(aggregate, the_same_batch_twice_counts_its_samples_twice)
{
	struct fixture *f = fixture_new();

	for (int i = 0; i < 3; i++) {
		add_sound(f);
		add_samples(f, 1, 1, 7);
		cr_assert_eq(deliver(f, false), 0);
	}
	cr_assert_eq(f->aggregate.exported, 21);
	cr_assert_eq(f->aggregate.profile.samples_count, 1, "the same stack of the same thread");
	fixture_free(f);
}

Test(aggregate, samples_with_unknown_ids_are_lost)
{
	static const uint32_t strange[] = {0,		2,	 1023,	     1024,	65536,
					   IDS_MAX - 1, IDS_MAX, 0x7fffffff, UINT32_MAX};
	struct fixture *f = fixture_new();

	add_sound(f);
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		add_samples(f, strange[i], 1, 1);
		add_samples(f, 1, strange[i], 1);
		add_samples(f, strange[i], strange[i], 1);
	}
	add_samples(f, 1, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 1);
	fixture_free(f);
}

Test(aggregate, ids_above_the_limit_are_refused)
{
	static const uint32_t huge[] = {IDS_MAX, IDS_MAX + 1, 0x7fffffff, 0x80000000, UINT32_MAX};
	struct fixture *f = fixture_new();

	add_sound(f);
	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		records_add_module(f->records, &(struct record_module){huge[i], "m", "", "", ""});
		records_add_function(f->records,
				     &(struct record_function){huge[i], "f", "", 0, false, ""});
		add_frame(f, huge[i], huge[i], huge[i], 0);
		add_stack(f, huge[i], 0, &(const uint32_t){1}, 1);
		add_stack(f, 2 + (uint32_t)i, 0, &huge[i], 1);
		add_thread(f, huge[i], huge[i]);
		add_samples(f, huge[i], 1, 1);
		add_samples(f, 2 + (uint32_t)i, 1, 1);
		add_samples(f, 1, huge[i], 1);
	}
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 0);
	cr_assert_leq(f->aggregate.stacks.capacity, 1024, "no memory for ids that are not used");
	fixture_free(f);
}

Test(aggregate, the_largest_valid_ids_are_accepted)
{
	const uint32_t largest = IDS_MAX - 1;
	struct fixture *f = fixture_new();

	records_add_module(f->records, &(struct record_module){largest, "m", "", "", ""});
	records_add_function(f->records, &(struct record_function){largest, "f", "", 0, false, ""});
	add_frame(f, largest, largest, largest, 0);
	add_stack(f, largest, 0, &largest, 1);
	add_thread(f, largest, largest);
	add_samples(f, largest, largest, 3);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 3);
	cr_assert_eq(f->aggregate.stacks.capacity, IDS_MAX);
	fixture_free(f);
}

Test(aggregate, stacks_above_the_limit_are_lost)
{
	static uint32_t frames[5000];
	struct fixture *f = fixture_new();

	for (size_t i = 0; i < 5000; i++)
		frames[i] = 1;
	add_sound(f);
	add_stack(f, 2, 0, frames, 5000);
	add_stack(f, 3, 0, frames, LIMIT_STACK_FRAMES + 1);
	add_stack(f, 4, 0, frames, LIMIT_STACK_FRAMES);
	add_samples(f, 2, 1, 2);
	add_samples(f, 3, 1, 2);
	add_samples(f, 4, 1, 2);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 2, "the last one only");
	fixture_free(f);
}

Test(aggregate, inlined_functions_are_with_their_caller)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_inlined(f, 11, 16, 0);
	add_inlined(f, 12, 16, 11);
	add_inlined(f, 13, 17, 11); /* at another address */
	add_inlined(f, 14, 16, 39); /* into a frame that does not exist */
	add_stack(f, 2, 0, (const uint32_t[]){12, 11}, 2);
	add_stack(f, 3, 0, (const uint32_t[]){12}, 1);
	add_stack(f, 4, 0, (const uint32_t[]){13, 11}, 2);
	add_stack(f, 5, 0, (const uint32_t[]){14, 11}, 2);
	for (uint32_t stack = 2; stack <= 5; stack++)
		add_samples(f, stack, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 1, "the first one only");
	fixture_free(f);
}

Test(aggregate, the_empty_stack_is_a_stack)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_stack(f, 2, INCOMPLETE_NO_PROCESS, NULL, 0);
	add_samples(f, 2, 1, 4);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 4);
	cr_assert_eq(f->aggregate.incomplete[INCOMPLETE_NO_PROCESS], 4);
	fixture_free(f);
}

Test(aggregate, invalid_kinds_and_reasons_are_ignored)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	for (uint32_t kind = 0; kind < 256; kind++) {
		add_frame(f, 10 + kind, 1, 1, (uint8_t)kind);
		add_stack(f, 10 + kind, (uint8_t)kind, &(const uint32_t){10 + kind}, 1);
		add_samples(f, 10 + kind, 1, 1);
	}
	/* A reason that does not exist, for a stack that does. */
	add_stack(f, 2, 255, &(const uint32_t){1}, 1);
	add_samples(f, 2, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, FRAME_KIND_COUNT + 1);
	fixture_free(f);
}

/* Frames with unknown parts are kept: only their names are missing. */
Test(aggregate, frames_of_unknown_modules_and_functions_are_kept)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_frame(f, 2, 99, 99, FRAME_KIND_NATIVE);
	add_stack(f, 2, 0, &(const uint32_t){2}, 1);
	add_samples(f, 2, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 1);
	cr_assert_eq(f->aggregate.frames_total, 2);
	cr_assert_eq(f->aggregate.frames_named, 1);
	fixture_free(f);
}

Test(aggregate, stacks_and_threads_with_unknown_parts_are_lost)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_stack(f, 2, 0, (const uint32_t[]){1, 1, 77}, 3);
	records_add_thread(f->records, &(struct record_thread){2, 77, 1, "orphan"});
	add_samples(f, 2, 1, 1);
	add_samples(f, 1, 2, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 0);
	fixture_free(f);
}

Test(aggregate, a_reset_drops_ids_and_keeps_samples)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_samples(f, 1, 1, 3);
	cr_assert_eq(deliver(f, false), 0);
	add_samples(f, 1, 1, 2);
	cr_assert_eq(deliver(f, true), 0);
	cr_assert_eq(f->aggregate.exported, 3,
		     "the two after the reset are of a stack that is unknown now");
	add_sound(f);
	add_samples(f, 1, 1, 4);
	cr_assert_eq(deliver(f, true), 0);
	cr_assert_eq(f->aggregate.exported, 7);
	cr_assert_eq(f->aggregate.profile.samples_count, 1,
		     "the same contents have the same place");
	fixture_free(f);
}

Test(aggregate, an_id_can_be_defined_again)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_samples(f, 1, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	add_frame(f, 2, 0, 0, FRAME_KIND_KERNEL);
	add_stack(f, 1, 0, (const uint32_t[]){1, 2}, 2);
	add_samples(f, 1, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, 2);
	cr_assert_eq(f->aggregate.profile.samples_count, 2);
	fixture_free(f);
}

/* Once the profile is full, samples of new stacks are lost and others are not. */
Test(aggregate, a_full_profile_loses_only_samples_of_new_stacks)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	add_samples(f, 1, 1, 1);
	cr_assert_eq(deliver(f, false), 0);
	f->aggregate.profile.bytes_max = f->aggregate.profile.bytes + 8192;
	for (uint32_t i = 0; i < 500; i++) {
		char name[64];

		snprintf(name, sizeof(name), "a function of some length, number %u", i);
		records_add_function(f->records,
				     &(struct record_function){2 + i, name, "", 0, false, ""});
		add_frame(f, 2 + i, 1, 2 + i, FRAME_KIND_NATIVE);
		add_stack(f, 2 + i, 0, (const uint32_t[]){1, 2 + i}, 2);
		add_samples(f, 2 + i, 1, 1);
		if (i % 100 == 99)
			cr_assert_eq(deliver(f, false), 0);
	}
	cr_assert_gt(f->aggregate.losses.lost[LOSS_PROFILE_FULL], 100);
	add_samples(f, 1, 1, 5);
	const uint64_t before = f->aggregate.exported;
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, before + 5);
	/* Ids of goroutines are left out, and their samples are not. */
	for (uint32_t i = 0; i < 1000; i++)
		records_add_sample(f->records, &(struct record_sample){1, 1, 1, 0, 1000 + i});
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.exported, before + 1005);
	cr_assert_leq(f->aggregate.profile.bytes, f->aggregate.profile.bytes_max);
	fixture_free(f);
}

Test(aggregate, samples_lost_for_want_of_memory_have_a_reason_of_their_own)
{
	struct fixture *f = fixture_new();

	add_sound(f);
	cr_assert_eq(deliver(f, false), 0);
	/* The name of another thread needs memory. */
	records_add_thread(f->records, &(struct record_thread){2, 1, 202, "another"});
	add_samples(f, 1, 2, 3);
	failing_memory.malloc = true;
	cr_assert_eq(deliver(f, false), 0);
	failing_memory.malloc = false;
	cr_assert_eq(f->aggregate.losses.lost[LOSS_EXPORTER_MEMORY], 3);
	cr_assert_eq(f->aggregate.losses.lost[LOSS_PROFILE_FULL], 0);
	/* An id that was never defined has nothing to do with memory. */
	add_sound(f);
	cr_assert_eq(deliver(f, true), 0);
	add_samples(f, 77, 1, 2);
	cr_assert_eq(deliver(f, false), 0);
	cr_assert_eq(f->aggregate.losses.lost[LOSS_EXPORTER_MEMORY], 3);
	cr_assert_eq(f->aggregate.losses.lost[LOSS_PROFILE_FULL], 2);
	fixture_free(f);
}

Test(aggregate, malformed_batches_are_refused)
{
	struct fixture *f = fixture_new();
	static const _Alignas(8) uint8_t zeros[64], ones[64] = {[0 ... 63] = 0xff};

	cr_assert_eq(aggregate_batch(&f->aggregate, zeros, 16), -EBADMSG);
	cr_assert_eq(aggregate_batch(&f->aggregate, ones, sizeof(ones)), -EBADMSG);
	cr_assert_eq(aggregate_batch(&f->aggregate, ones, 0), -EBADMSG);
	check(f);
	fixture_free(f);
}

/* Many batches with random ids, most of them wrong. */
Test(aggregate, a_random_worker_breaks_no_invariant)
{
	struct fixture *f = fixture_new();
	unsigned int state = 1;

#define RANDOM(n) ((uint32_t)(rand_r(&state) % (n)))
	for (int batch = 0; batch < 300; batch++) {
		for (uint32_t i = RANDOM(50); i; i--) {
			uint32_t frames[8];

			for (int k = 0; k < 8; k++)
				frames[k] = RANDOM(40);
			records_add_module(
			    f->records,
			    &(struct record_module){RANDOM(10), i % 3 ? "m" : "", "", "", ""});
			records_add_function(f->records,
					     &(struct record_function){RANDOM(10), i % 3 ? "f" : "",
								       "", 0, false, ""});
			add_frame(f, RANDOM(40), RANDOM(12), RANDOM(12), (uint8_t)RANDOM(4));
			add_inlined(f, RANDOM(40), RANDOM(2), RANDOM(41));
			add_stack(f, RANDOM(40), (uint8_t)RANDOM(20), frames, RANDOM(9));
			records_add_process(
			    f->records, &(struct record_process){RANDOM(8), RANDOM(100), RANDOM(2),
								 "c", "", "", "", NULL, 0});
			records_add_thread(f->records, &(struct record_thread){
							   RANDOM(20), RANDOM(9), RANDOM(100), ""});
			add_samples(f, RANDOM(41), RANDOM(21), 1);
		}
		cr_assert_eq(deliver(f, RANDOM(20) == 0), 0);
	}
	cr_assert_gt(f->aggregate.exported, 100);
	cr_assert_gt(lost(f), 100);
	fixture_free(f);
}
