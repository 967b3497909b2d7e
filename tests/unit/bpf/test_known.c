/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#define WALK_CACHE_BITS 1
#define WALK_HINT_BITS 0
#define WALK_KNOWN_BITS 3
#include "tests/unit/bpf/walk_env.h"
#include "bpf/runtime/known.h"

static struct walk_state state;
static struct walk_known_cache cache;

enum {
	ADDRESS = 0x7f0000001000
};

static void set_up(void)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
	state.runtime.known_key = 0x123456789abcdef1;
	state.runtime.frames = 1;
	state.header.time_ns = 1000ull << WALK_KNOWN_TIME_BITS;
}

static void pass(uint64_t units)
{
	state.header.time_ns += units << WALK_KNOWN_TIME_BITS;
}

TestSuite(known, .init = set_up);

Test(known, found_by_address_and_process)
{
	cr_assert_null(walk_find_known(&state, &cache, ADDRESS));
	struct walk_known *known = walk_learn(&state, &cache, ADDRESS);
	known->facts[0] = 7;
	cr_assert_eq(walk_find_known(&state, &cache, ADDRESS), known);
	cr_assert_null(walk_find_known(&state, &cache, ADDRESS + 16));
	state.runtime.known_key++;
	cr_assert_null(walk_find_known(&state, &cache, ADDRESS));
}

/* Where there is no cache, nothing is known, and nothing can be learned. */
Test(known, no_cache)
{
	cr_assert_null(walk_find_known(&state, NULL, ADDRESS));
	cr_assert_null(walk_learn(&state, NULL, ADDRESS));
}

Test(known, steady_after_a_while_and_not_for_long)
{
	struct walk_known *known = walk_learn(&state, &cache, ADDRESS);

	cr_assert_not(walk_is_steady(&state, known), "just learned");
	pass(WALK_STEADY - 1);
	cr_assert_not(walk_is_steady(&state, known), "not looked at since");
	walk_confirm(&state, known, 1);
	cr_assert_not(walk_is_steady(&state, known), "a unit too early");
	pass(1);
	walk_confirm(&state, known, 1);
	cr_assert(walk_is_steady(&state, known));
	pass(WALK_PATIENCE - 1);
	cr_assert(walk_is_steady(&state, known));
	pass(1);
	cr_assert_not(walk_is_steady(&state, known), "to be looked at again");
	walk_confirm(&state, known, 1);
	cr_assert(walk_is_steady(&state, known));
	walk_confirm(&state, known, 0);
	cr_assert_not(walk_is_steady(&state, known), "another one");
}

/* The innermost managed frame is always looked at. */
Test(known, innermost)
{
	struct walk_known *known = walk_learn(&state, &cache, ADDRESS);

	pass(WALK_STEADY);
	walk_confirm(&state, known, 1);
	cr_assert(walk_is_steady(&state, known));
	state.runtime.frames = 0;
	cr_assert_not(walk_is_steady(&state, known));
}

/* Times are 32 bits wide. */
Test(known, around_the_end_of_time)
{
	state.header.time_ns = (uint64_t)(UINT32_MAX - 10) << WALK_KNOWN_TIME_BITS;
	struct walk_known *known = walk_learn(&state, &cache, ADDRESS);

	pass(WALK_STEADY);
	walk_confirm(&state, known, 1);
	cr_assert(walk_is_steady(&state, known));
	pass(WALK_PATIENCE);
	cr_assert_not(walk_is_steady(&state, known));
}

/* The oldest goes first, and never is one taken for another. */
Test(known, more_than_there_is_room_for)
{
	for (uint64_t i = 0; i < 3 * WALK_KNOWN_MAX; i++)
		walk_learn(&state, &cache, ADDRESS + i * 16)->facts[0] = (uint32_t)i;
	for (uint64_t i = 0; i < 3 * WALK_KNOWN_MAX; i++) {
		const struct walk_known *known = walk_find_known(&state, &cache, ADDRESS + i * 16);

		cr_assert(!known || known->facts[0] == i);
		cr_assert(!known || i >= 2 * WALK_KNOWN_MAX);
	}
	cr_assert(walk_find_known(&state, &cache, ADDRESS + (3 * WALK_KNOWN_MAX - 1) * 16));
}

/* In the order in which they were learned they are found without the index. */
Test(known, in_order)
{
	for (uint64_t i = 0; i < 4; i++)
		walk_learn(&state, &cache, ADDRESS + i * 16)->facts[0] = (uint32_t)i;
	memset(cache.index, 0xff, sizeof(cache.index));
	state.runtime.known_place = WALK_KNOWN_MAX - 1;
	for (uint64_t i = 0; i < 4; i++)
		cr_assert_eq(walk_find_known(&state, &cache, ADDRESS + i * 16)->facts[0], i);
	cr_assert_null(walk_find_known(&state, &cache, ADDRESS));
}

/* Of those that share a pair of the index two are found without the order. */
Test(known, two_in_a_pair)
{
	uint64_t other = ADDRESS;

	do
		other += 16;
	while (walk_known_index(&cache, other ^ state.runtime.known_key) !=
	       walk_known_index(&cache, ADDRESS ^ state.runtime.known_key));
	walk_learn(&state, &cache, ADDRESS)->facts[0] = 1;
	walk_learn(&state, &cache, other)->facts[0] = 2;
	state.runtime.known_place = WALK_KNOWN_MAX / 2;
	cr_assert_eq(walk_find_known(&state, &cache, ADDRESS)->facts[0], 1);
	state.runtime.known_place = WALK_KNOWN_MAX / 2;
	cr_assert_eq(walk_find_known(&state, &cache, other)->facts[0], 2);
}

/* Learned twice: asked for again it is the entry that was found, not the newer one. */
Test(known, the_same_again)
{
	struct walk_known *older = walk_learn(&state, &cache, ADDRESS);

	walk_learn(&state, &cache, ADDRESS + 16);
	walk_learn(&state, &cache, ADDRESS);
	state.runtime.known_place = WALK_KNOWN_MAX - 1;
	cr_assert_eq(walk_find_known(&state, &cache, ADDRESS), older);
	cr_assert_eq(walk_find_known(&state, &cache, ADDRESS), older);
}

/* As walkers do it: what is not steady is asked for a second time, to note that it was looked at.
 * Nothing is learned twice, though only the order leads to the entries, and all get steady. */
Test(known, asked_for_again)
{
	enum {
		METHODS = WALK_KNOWN_MAX - 2
	};

	for (unsigned int round = 0; round <= WALK_STEADY; round++) {
		state.runtime.known_place = WALK_KNOWN_MAX - 1;
		for (uint64_t i = 0; i < METHODS; i++) {
			const uint64_t address = ADDRESS + i * 16;
			const struct walk_known *known =
			    walk_find_known(&state, &cache, address);

			if (known && walk_is_steady(&state, known))
				continue;
			struct walk_known *again = walk_find_known(&state, &cache, address);
			cr_assert_eq(again, known);
			if (again)
				walk_confirm(&state, again, 1);
			else
				walk_learn(&state, &cache, address);
			memset(cache.index, 0xff, sizeof(cache.index));
		}
		pass(1);
	}
	cr_assert_eq(cache.added, METHODS);
	state.runtime.known_place = WALK_KNOWN_MAX - 1;
	for (uint64_t i = 0; i < METHODS; i++)
		cr_assert(walk_is_steady(
		    &state, walk_find_known(&state, &cache, ADDRESS + i * 16)));
}
