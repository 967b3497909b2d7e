/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stddef.h>

#include "bpf/shared.h"

#define WALK_ENV const void *
#define WALK_CACHE_BITS 6
#define WALK_HINT_BITS 0
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static const uint8_t *walk_slab(const void *env, uint32_t index)
{
	(void)env;
	(void)index;
	return NULL;
}

/* Memory without a file: the rule is frame pointers, whatever the address. */
static const struct bh_module *walk_module(const void *env, uint32_t slot)
{
	static const struct bh_module module = {.state = BH_MODULE_FRAME_POINTERS};

	(void)env;
	(void)slot;
	return &module;
}

static const struct bh_rule *walk_rule(const void *env, uint32_t number)
{
	static const struct bh_rule rule;

	(void)env;
	(void)number;
	return &rule;
}

static const struct bh_runtime_table *walk_runtimes(const void *env)
{
	(void)env;
	return NULL;
}

static int walk_read(const void *env, void *to, size_t bytes, uint64_t address)
{
	(void)env;
	(void)to;
	(void)bytes;
	(void)address;
	return -1;
}

#pragma GCC diagnostic ignored "-Wunused-function"
#include "bpf/walk.h"

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
