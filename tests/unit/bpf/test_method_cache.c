/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 1
#define MAPPING_HINT_BITS 0
#define METHOD_CACHE_BITS 3
#include "tests/unit/bpf/unwind_env.h"
#include "bpf/runtime/method_cache.h"

static struct unwind_state state;
static struct method_cache cache;

enum {
	ADDRESS = 0x7f0000001000
};

static void set_up(void)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
	state.runtime.method_key = 0x123456789abcdef1;
	state.runtime.managed_frames = 1;
	state.header.time_ns = 1000ull << METHOD_CACHE_TIME_BITS;
}

static void pass(uint64_t units)
{
	state.header.time_ns += units << METHOD_CACHE_TIME_BITS;
}

TestSuite(method_cache, .init = set_up);

Test(method_cache, found_by_address_and_process)
{
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
	struct method_cache_entry *known = method_cache_insert(&state, &cache, ADDRESS);
	known->facts[0] = 7;
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS), known);
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS + 16));
	state.runtime.method_key++;
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
}

/* Where there is no cache, nothing is known, and nothing can be learned. */
Test(method_cache, no_cache)
{
	cr_assert_null(method_cache_find(&state, NULL, ADDRESS));
	cr_assert_null(method_cache_insert(&state, NULL, ADDRESS));
}

Test(method_cache, steady_after_a_while_and_not_for_long)
{
	struct method_cache_entry *known = method_cache_insert(&state, &cache, ADDRESS);

	cr_assert_not(method_cache_is_trusted(&state, known), "just learned");
	pass(VALIDATE_AGE - 1);
	cr_assert_not(method_cache_is_trusted(&state, known), "not looked at since");
	method_cache_revalidate(&state, known, 1);
	cr_assert_not(method_cache_is_trusted(&state, known), "a unit too early");
	pass(1);
	method_cache_revalidate(&state, known, 1);
	cr_assert(method_cache_is_trusted(&state, known));
	pass(VALIDATE_INTERVAL - 1);
	cr_assert(method_cache_is_trusted(&state, known));
	pass(1);
	cr_assert_not(method_cache_is_trusted(&state, known), "to be looked at again");
	method_cache_revalidate(&state, known, 1);
	cr_assert(method_cache_is_trusted(&state, known));
	method_cache_revalidate(&state, known, 0);
	cr_assert_not(method_cache_is_trusted(&state, known), "another one");
}

/* The innermost managed frame is always looked at. */
Test(method_cache, innermost)
{
	struct method_cache_entry *known = method_cache_insert(&state, &cache, ADDRESS);

	pass(VALIDATE_AGE);
	method_cache_revalidate(&state, known, 1);
	cr_assert(method_cache_is_trusted(&state, known));
	state.runtime.managed_frames = 0;
	cr_assert_not(method_cache_is_trusted(&state, known));
}

/* Times are 32 bits wide. */
Test(method_cache, around_the_end_of_time)
{
	state.header.time_ns = (uint64_t)(UINT32_MAX - 10) << METHOD_CACHE_TIME_BITS;
	struct method_cache_entry *known = method_cache_insert(&state, &cache, ADDRESS);

	pass(VALIDATE_AGE);
	method_cache_revalidate(&state, known, 1);
	cr_assert(method_cache_is_trusted(&state, known));
	pass(VALIDATE_INTERVAL);
	cr_assert_not(method_cache_is_trusted(&state, known));
}

/* The oldest goes first, and never is one taken for another. */
Test(method_cache, more_than_there_is_room_for)
{
	for (uint64_t i = 0; i < 3 * METHOD_CACHE_ENTRIES; i++)
		method_cache_insert(&state, &cache, ADDRESS + i * 16)->facts[0] = (uint32_t)i;
	for (uint64_t i = 0; i < 3 * METHOD_CACHE_ENTRIES; i++) {
		const struct method_cache_entry *known = method_cache_find(&state, &cache, ADDRESS + i * 16);

		cr_assert(!known || known->facts[0] == i);
		cr_assert(!known || i >= 2 * METHOD_CACHE_ENTRIES);
	}
	cr_assert(method_cache_find(&state, &cache, ADDRESS + (3 * METHOD_CACHE_ENTRIES - 1) * 16));
}

/* In the order in which they were learned they are found without the index. */
Test(method_cache, in_order)
{
	for (uint64_t i = 0; i < 4; i++)
		method_cache_insert(&state, &cache, ADDRESS + i * 16)->facts[0] = (uint32_t)i;
	memset(cache.index, 0xff, sizeof(cache.index));
	state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
	for (uint64_t i = 0; i < 4; i++)
		cr_assert_eq(method_cache_find(&state, &cache, ADDRESS + i * 16)->facts[0], i);
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
}

/* Of those that share a pair of the index two are found without the order. */
Test(method_cache, two_in_a_pair)
{
	uint64_t other = ADDRESS;

	do
		other += 16;
	while (method_cache_index(&cache, other ^ state.runtime.method_key) !=
	       method_cache_index(&cache, ADDRESS ^ state.runtime.method_key));
	method_cache_insert(&state, &cache, ADDRESS)->facts[0] = 1;
	method_cache_insert(&state, &cache, other)->facts[0] = 2;
	state.runtime.method_position = METHOD_CACHE_ENTRIES / 2;
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS)->facts[0], 1);
	state.runtime.method_position = METHOD_CACHE_ENTRIES / 2;
	cr_assert_eq(method_cache_find(&state, &cache, other)->facts[0], 2);
}

/* Learned twice: asked for again it is the entry that was found, not the newer one. */
Test(method_cache, the_same_again)
{
	struct method_cache_entry *older = method_cache_insert(&state, &cache, ADDRESS);

	method_cache_insert(&state, &cache, ADDRESS + 16);
	method_cache_insert(&state, &cache, ADDRESS);
	state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS), older);
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS), older);
}

/* As walkers do it: what is not steady is asked for a second time, to note that it was looked at.
 * Nothing is learned twice, though only the order leads to the entries, and all get steady. */
Test(method_cache, asked_for_again)
{
	enum {
		METHODS = METHOD_CACHE_ENTRIES - 2
	};

	for (unsigned int round = 0; round <= VALIDATE_AGE; round++) {
		state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
		for (uint64_t i = 0; i < METHODS; i++) {
			const uint64_t address = ADDRESS + i * 16;
			const struct method_cache_entry *known =
			    method_cache_find(&state, &cache, address);

			if (known && method_cache_is_trusted(&state, known))
				continue;
			struct method_cache_entry *again = method_cache_find(&state, &cache, address);
			cr_assert_eq(again, known);
			if (again)
				method_cache_revalidate(&state, again, 1);
			else
				method_cache_insert(&state, &cache, address);
			memset(cache.index, 0xff, sizeof(cache.index));
		}
		pass(1);
	}
	cr_assert_eq(cache.added, METHODS);
	state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
	for (uint64_t i = 0; i < METHODS; i++)
		cr_assert(method_cache_is_trusted(
		    &state, method_cache_find(&state, &cache, ADDRESS + i * 16)));
}
