/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/worker/runtime_slots.h"

static struct runtime_slots slots;

static void setup(void)
{
	slots = (struct runtime_slots){.table = calloc(1, sizeof(struct bh_runtime_table))};
	cr_assert(slots.table);
}

static void teardown(void)
{
	free(slots.table);
}

/* Returns the slot of a process, or NULL, with a search like that of the kernel side. */
static const struct bh_runtime_slot *look_up(uint32_t tgid)
{
	for (uint32_t i = 0; i < BH_RUNTIME_PROBES; i++) {
		const struct bh_runtime_slot *slot =
		    &slots.table->slots[(bh_runtime_hash(tgid) + i) & (RUNTIME_SLOTS - 1)];

		if (!slot->tgid)
			return NULL;
		if (slot->tgid == tgid)
			return slot;
	}
	return NULL;
}

static void fill_nothing(void *context, struct bh_runtime_table *table)
{
	(void)context;
	(void)table;
}

static void fill_block(void *context, struct bh_runtime_table *table)
{
	const struct bh_runtime_slot *slot = context;

	/* The odd sequence tells walkers not to use the slot while blocks are written. */
	cr_assert(slot->sequence & 1);
	table->blocks[0].words[0] = 7;
}

static struct runtime_slot_range range(uint64_t start, uint64_t end, bool in_file)
{
	return (struct runtime_slot_range){.range = {.start = start, .end = end, .runtime = 1},
					   .in_file = in_file};
}

static int publish(uint32_t tgid, struct runtime_slot_range *ranges, size_t count)
{
	return runtime_slots_publish(&slots, tgid, ranges, count, fill_nothing, NULL);
}

TestSuite(runtime_slots, .init = setup, .fini = teardown);

Test(runtime_slots, ranges_are_sorted_and_do_not_overlap)
{
	struct runtime_slot_range ranges[] = {
	    range(0x9000, 0xa000, false), range(0x1000, 0x2000, true), range(0x5000, 0x5000, true),
	    range(0x4000, 0x5000, true)};

	cr_assert_eq(publish(42, ranges, 4), 0);
	const struct bh_runtime_slot *slot = look_up(42);
	cr_assert(slot);
	cr_assert_eq(slot->range_count, 3);
	cr_assert_eq(slot->sequence & 1, 0);
	const struct bh_runtime_range *r = &slots.table->ranges[slot->first_range];
	cr_assert_eq(r[0].start, 0x1000);
	cr_assert_eq(r[1].start, 0x4000);
	cr_assert_eq(r[2].start, 0x9000);
	/* The code filters are the two intervals that contain the ranges in files. */
	cr_assert_eq(slot->code_filters[0].start, 0x1000);
	cr_assert_eq(slot->code_filters[0].bytes, 0x1000);
	cr_assert_eq(slot->code_filters[1].start, 0x4000);
	cr_assert_eq(slot->code_filters[1].bytes, 0x1000);
}

/* Returns a text with the ranges of process 42. */
static const char *ranges_of_42(void)
{
	static char text[256];
	const struct bh_runtime_slot *slot = look_up(42);
	size_t used = 0;

	cr_assert(slot);
	for (uint32_t i = 0; i < slot->range_count; i++) {
		const struct bh_runtime_range *r = &slots.table->ranges[slot->first_range + i];

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%llx-%llx ",
					 (unsigned long long)r->start, (unsigned long long)r->end);
	}
	return text;
}

/* One runtime's guess must not take the code of another one. */
Test(runtime_slots, a_large_range_is_cut_where_a_small_one_is)
{
	struct runtime_slot_range below[] = {range(0x1000, 0x3000, false),
					     range(0x1000, 0x9000, false)};
	struct runtime_slot_range inside[] = {range(0x1000, 0x9000, false),
					      range(0x4000, 0x5000, false)};
	struct runtime_slot_range end[] = {range(0x1000, 0x9000, false),
					   range(0x8000, 0xa000, false)};
	struct runtime_slot_range chain[] = {range(0x1000, 0x9000, false),
					     range(0x1000, 0x2000, false),
					     range(0x2000, 0x3000, false)};
	struct runtime_slot_range equal[] = {range(0x1000, 0x2000, false),
					     range(0x1000, 0x2000, false)};

	cr_assert_eq(publish(42, below, 2), 0);
	cr_expect_str_eq(ranges_of_42(), "1000-3000 3000-9000 ");
	cr_assert_eq(publish(42, inside, 2), 0);
	cr_expect_str_eq(ranges_of_42(), "1000-4000 4000-5000 ");
	cr_assert_eq(publish(42, end, 2), 0);
	cr_expect_str_eq(ranges_of_42(), "1000-8000 8000-a000 ");
	cr_assert_eq(publish(42, chain, 3), 0);
	cr_expect_str_eq(ranges_of_42(), "1000-2000 2000-3000 ");
	cr_assert_eq(publish(42, equal, 2), 0);
	cr_expect_str_eq(ranges_of_42(), "1000-2000 ");
}

Test(runtime_slots, code_filters_are_split_at_the_widest_gap)
{
	struct runtime_slot_range ranges[] = {range(0x1000, 0x2000, true),
					      range(0x3000, 0x4000, true),
					      range(0x900000, 0x901000, true)};

	cr_assert_eq(publish(1, ranges, 3), 0);
	const struct bh_runtime_slot *slot = look_up(1);
	cr_assert_eq(slot->code_filters[0].start, 0x1000);
	cr_assert_eq(slot->code_filters[0].bytes, 0x3000);
	cr_assert_eq(slot->code_filters[1].start, 0x900000);
	cr_assert_eq(publish(1, ranges, 1), 0);
	cr_assert_eq(look_up(1)->code_filters[1].bytes, 0);
}

Test(runtime_slots, blocks_are_written_while_the_sequence_is_odd)
{
	struct runtime_slot_range ranges[] = {range(0x1000, 0x2000, true)};

	cr_assert_eq(publish(5, ranges, 1), 0);
	const uint32_t sequence = look_up(5)->sequence;
	cr_assert_eq(
	    runtime_slots_publish(&slots, 5, ranges, 1, fill_block, (void *)(uintptr_t)look_up(5)),
	    0);
	cr_assert_eq(look_up(5)->sequence, sequence + 2);
	cr_assert_eq(slots.table->blocks[0].words[0], 7);
}

/* Thousands of processes start and end. No slot or range may leak, and the slots of live processes
 * must still be found. */
Test(runtime_slots, removed_slots_are_reused_and_others_are_kept)
{
	enum {
		ALIVE = 300,
		ROUNDS = 20000
	};
	uint32_t alive[ALIVE] = {0};
	struct runtime_slot_range ranges[40];
	unsigned int without = 0;

	srand(1);
	for (uint32_t round = 1; round < ROUNDS; round++) {
		uint32_t *tgid = &alive[rand() % ALIVE];
		const size_t count = 1 + (size_t)rand() % 20;

		if (*tgid)
			runtime_slots_remove(&slots, *tgid);
		*tgid = round;
		for (size_t i = 0; i < count; i++)
			ranges[i] = range(0x1000 * (i + 1), 0x1000 * (i + 1) + 0x800, i % 2);
		if (publish(round, ranges, count) < 0) {
			*tgid = 0;
			without++;
		}
	}
	cr_assert_lt(without, ROUNDS / 100, "%u", without);
	for (int i = 0; i < ALIVE; i++) {
		if (alive[i])
			cr_assert(look_up(alive[i]));
		runtime_slots_remove(&slots, alive[i]);
	}
	for (int i = 0; i < RUNTIME_RANGES; i++)
		cr_assert_not(slots.range_used[i]);
	for (int i = 0; i < RUNTIME_SLOTS; i++)
		cr_assert_eq(slots.table->slots[i].tgid, 0);
}

Test(runtime_slots, too_many_ranges_are_refused)
{
	struct runtime_slot_range *ranges =
	    calloc(RUNTIME_PROCESS_RANGES_MAX + 1, sizeof(ranges[0]));

	for (size_t i = 0; i <= RUNTIME_PROCESS_RANGES_MAX; i++)
		ranges[i] = range(0x1000 * (i + 1), 0x1000 * (i + 1) + 0x800, false);
	cr_assert_eq(publish(9, ranges, RUNTIME_PROCESS_RANGES_MAX), 0);
	cr_assert(look_up(9));
	cr_assert_eq(publish(9, ranges, RUNTIME_PROCESS_RANGES_MAX + 1), -ENOSPC);
	cr_assert_null(look_up(9));
	free(ranges);
}

Test(runtime_slots, a_block_is_taken_once_and_reused_empty)
{
	for (int i = 0; i < RUNTIME_BLOCKS; i++)
		cr_assert_eq(runtime_slots_take_block(&slots), i);
	cr_assert_eq(runtime_slots_take_block(&slots), RUNTIME_NO_BLOCK);
	slots.table->blocks[7].words[3] = 1;
	runtime_slots_give_block(&slots, 7);
	cr_assert_eq(runtime_slots_take_block(&slots), 7);
	cr_assert_eq(slots.table->blocks[7].words[3], 0);
	runtime_slots_give_block(&slots, RUNTIME_NO_BLOCK);
}
