/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#define WALK_CACHE_BITS 6
#define WALK_HINT_BITS 0
#include "tests/unit/bpf/walk_env.h"

static struct walk_state state;
static struct walk_cache cache;

static void set_up(void)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
}

/* Where the rule of `frame` is, behind that of the frame at `before`. */
static uint64_t look_up(uint64_t before, uint64_t frame)
{
	uint64_t place = walk_place(&cache, before, frame);

	if (cache.entries[place].frame != frame)
		cr_assert_eq(walk_look_up(&state, NULL, &cache, 0, frame, &place), WALK_GO_ON);
	cr_assert_eq(cache.entries[place].frame, frame);
	return place;
}

/* Another frame whose places are in the same pair. */
static uint64_t pair_of(uint64_t frame)
{
	uint64_t other = frame + 1;

	while (walk_index(&cache, other) != walk_index(&cache, frame))
		other++;
	return other;
}

TestSuite(walk_cache, .init = set_up);

Test(walk_cache, in_order)
{
	uint64_t place = 0;

	for (uint64_t frame = 100; frame < 110; frame++)
		place = look_up(place, frame);
	memset(cache.index, 0xff, sizeof(cache.index));
	place = walk_place(&cache, WALK_CACHED_MAX - 1, 100);
	for (uint64_t frame = 101; frame < 110; frame++)
		place = look_up(place, frame);
	cr_assert_eq(cache.added, 10);
}

/* An interpreter that calls itself: the same few frames again and again. */
Test(walk_cache, recursion)
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
Test(walk_cache, more_than_there_is_room_for)
{
	uint64_t place = 0;

	for (uint64_t frame = 1; frame <= 3 * WALK_CACHED_MAX; frame++)
		place = look_up(place, frame);
	cr_assert_eq(cache.added, 3 * WALK_CACHED_MAX);
	cr_assert_eq(cache.entries[0].frame, 2 * WALK_CACHED_MAX + 1);
}
