/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#include "tests/unit/bpf/unwind_env.h"

static struct unwind_state state;
static struct rule_cache cache;

static void set_up(void)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
}

/* Returns the position of the rule of `frame`, after that of the previous frame at `last`. Adds the
 * rule if it is not cached. */
static uint64_t find_or_fill(uint64_t last, uint64_t frame)
{
	uint64_t position = rule_cache_position(&cache, last, frame, 0);

	if (cache.entries[position].key != frame)
		cr_assert_eq(rule_cache_fill(&state, NULL, &cache, 0, frame, &position),
			     UNWIND_CONTINUE);
	cr_assert_eq(cache.entries[position].key, frame);
	return position;
}

/* Returns another frame with the same hash. */
static uint64_t frame_with_hash_of(uint64_t frame)
{
	uint64_t other = frame + 1;

	while (rule_cache_pair(&cache, other) != rule_cache_pair(&cache, frame))
		other++;
	return other;
}

TestSuite(rule_cache, .init = set_up);

Test(rule_cache, a_repeated_stack_needs_no_index)
{
	uint64_t position = 0;

	for (uint64_t frame = 100; frame < 110; frame++)
		position = find_or_fill(position, frame);
	memset(cache.index, 0xff, sizeof(cache.index));
	position = rule_cache_position(&cache, RULE_CACHE_ENTRIES - 1, 100, 0);
	for (uint64_t frame = 101; frame < 110; frame++)
		position = find_or_fill(position, frame);
	cr_assert_eq(cache.added, 10);
}

/* An interpreter that calls itself repeats the same few frames. */
Test(rule_cache, frames_of_a_recursion_with_one_hash_do_not_evict_each_other)
{
	const uint64_t first = 100, second = frame_with_hash_of(first), third = second + 1000;
	uint64_t position = 0;

	for (int round = 0; round < 20; round++) {
		position = find_or_fill(position, first);
		position = find_or_fill(position, second);
		position = find_or_fill(position, third);
	}
	cr_assert_eq(cache.added, 3, "%u", cache.added);
}

Test(rule_cache, the_oldest_entry_is_evicted_first)
{
	uint64_t position = 0;

	for (uint64_t frame = 1; frame <= 3 * RULE_CACHE_ENTRIES; frame++)
		position = find_or_fill(position, frame);
	cr_assert_eq(cache.added, 3 * RULE_CACHE_ENTRIES);
	cr_assert_eq(cache.entries[0].key, 2 * RULE_CACHE_ENTRIES + 1);
}
