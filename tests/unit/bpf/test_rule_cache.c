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

/* Where the rule of `frame` is, behind that of the frame at `before`. */
static uint64_t look_up(uint64_t before, uint64_t frame)
{
	uint64_t place = rule_cache_find(&cache, before, frame);

	if (cache.entries[place].frame != frame)
		cr_assert_eq(rule_cache_fill(&state, NULL, &cache, 0, frame, &place), UNWIND_CONTINUE);
	cr_assert_eq(cache.entries[place].frame, frame);
	return place;
}

/* Another frame whose places are in the same pair. */
static uint64_t pair_of(uint64_t frame)
{
	uint64_t other = frame + 1;

	while (rule_cache_index(&cache, other) != rule_cache_index(&cache, frame))
		other++;
	return other;
}

TestSuite(rule_cache, .init = set_up);

Test(rule_cache, in_order)
{
	uint64_t place = 0;

	for (uint64_t frame = 100; frame < 110; frame++)
		place = look_up(place, frame);
	memset(cache.index, 0xff, sizeof(cache.index));
	place = rule_cache_find(&cache, RULE_CACHE_ENTRIES - 1, 100);
	for (uint64_t frame = 101; frame < 110; frame++)
		place = look_up(place, frame);
	cr_assert_eq(cache.added, 10);
}

/* An interpreter that calls itself: the same few frames again and again. */
Test(rule_cache, recursion)
{
	const uint64_t first = 100, second = pair_of(first), third = second + 1000;
	uint64_t place = 0;

	for (int round = 0; round < 20; round++) {
		place = look_up(place, first);
		place = look_up(place, second);
		place = look_up(place, third);
	}
	cr_assert_eq(cache.added, 3, "%u", cache.added);
}

/* More than there is room for: the oldest goes first. */
Test(rule_cache, more_than_there_is_room_for)
{
	uint64_t place = 0;

	for (uint64_t frame = 1; frame <= 3 * RULE_CACHE_ENTRIES; frame++)
		place = look_up(place, frame);
	cr_assert_eq(cache.added, 3 * RULE_CACHE_ENTRIES);
	cr_assert_eq(cache.entries[0].frame, 2 * RULE_CACHE_ENTRIES + 1);
}
