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

/* Lets time pass, in units of the cache. */
static void pass(uint64_t units)
{
	state.header.time_ns += units << METHOD_CACHE_TIME_BITS;
}

/* Lets time pass in which the method is checked often. */
static void check_for(struct method_cache_entry *entry, uint64_t units)
{
	while (units) {
		const uint64_t step = units < VALIDATE_GAP ? units : VALIDATE_GAP;

		pass(step);
		method_cache_revalidate(&state, entry, 1);
		units -= step;
	}
}

TestSuite(method_cache, .init = set_up);

Test(method_cache, an_entry_is_found_by_address_and_process)
{
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, ADDRESS);
	entry->facts[0] = 7;
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS), entry);
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS + 16));
	state.runtime.method_key++;
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
}

Test(method_cache, without_a_cache_nothing_is_found_or_inserted)
{
	cr_assert_null(method_cache_find(&state, NULL, ADDRESS));
	cr_assert_null(method_cache_insert(&state, NULL, ADDRESS));
}

Test(method_cache, trusted_after_validate_age_for_validate_interval)
{
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, ADDRESS);

	cr_assert_not(method_cache_is_trusted(&state, entry), "just inserted");
	check_for(entry, VALIDATE_AGE - VALIDATE_GAP);
	pass(VALIDATE_GAP - 1);
	cr_assert_not(method_cache_is_trusted(&state, entry), "not checked since");
	method_cache_revalidate(&state, entry, 1);
	cr_assert_not(method_cache_is_trusted(&state, entry), "a unit too early");
	pass(1);
	method_cache_revalidate(&state, entry, 1);
	cr_assert(method_cache_is_trusted(&state, entry));
	pass(VALIDATE_INTERVAL - 1);
	cr_assert(method_cache_is_trusted(&state, entry));
	pass(1);
	cr_assert_not(method_cache_is_trusted(&state, entry), "to be checked again");
	method_cache_revalidate(&state, entry, 1);
	cr_assert(method_cache_is_trusted(&state, entry));
	method_cache_revalidate(&state, entry, 0);
	cr_assert_not(method_cache_is_trusted(&state, entry), "another method");
}

Test(method_cache, what_is_seen_rarely_is_not_trusted)
{
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, ADDRESS);

	for (int i = 0; i < 10; i++) {
		pass(VALIDATE_GAP + 1);
		method_cache_revalidate(&state, entry, 1);
		cr_assert_not(method_cache_is_trusted(&state, entry));
	}
	check_for(entry, VALIDATE_AGE);
	cr_assert(method_cache_is_trusted(&state, entry));
	pass(VALIDATE_INTERVAL + VALIDATE_GAP);
	method_cache_revalidate(&state, entry, 1);
	cr_assert(method_cache_is_trusted(&state, entry), "seen after a while");
	pass(VALIDATE_INTERVAL + VALIDATE_GAP + 1);
	method_cache_revalidate(&state, entry, 1);
	cr_assert_not(method_cache_is_trusted(&state, entry), "seen after a longer while");
}

Test(method_cache, the_innermost_frame_is_never_trusted)
{
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, ADDRESS);

	check_for(entry, VALIDATE_AGE);
	cr_assert(method_cache_is_trusted(&state, entry));
	state.runtime.managed_frames = 0;
	cr_assert_not(method_cache_is_trusted(&state, entry));
}

/* A hash of words that were read of the innermost method. */
static uint64_t seen_with(uint64_t name)
{
	return method_cache_mix(method_cache_mix(ADDRESS, ADDRESS + 64), name);
}

Test(method_cache, the_innermost_frame_is_recalled_by_what_was_read)
{
	const uint64_t seen = seen_with(1);

	state.runtime.managed_frames = 0;
	for (uint64_t units = 0; units < VALIDATE_AGE; units += VALIDATE_GAP) {
		cr_assert_null(method_cache_recall(&state, &cache, seen), "not checked for long");
		cr_assert_not_null(method_cache_keep(&state, &cache, seen, 7));
		pass(VALIDATE_GAP);
	}
	method_cache_keep(&state, &cache, seen, 7);
	const struct method_cache_entry *entry = method_cache_recall(&state, &cache, seen);
	cr_assert_not_null(entry);
	cr_assert_eq(entry->facts[0], 7);
	cr_assert_null(method_cache_recall(&state, &cache, seen_with(2)), "another name");
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
	pass(VALIDATE_INTERVAL);
	cr_assert_null(method_cache_recall(&state, &cache, seen), "to be checked again");
	method_cache_keep(&state, &cache, seen, 7);
	cr_assert_not_null(method_cache_recall(&state, &cache, seen));
	method_cache_keep(&state, &cache, seen, 8);
	cr_assert_null(method_cache_recall(&state, &cache, seen), "another text");
}

Test(method_cache, other_frames_are_neither_recalled_nor_kept_by_what_was_read)
{
	cr_assert_null(method_cache_keep(&state, &cache, seen_with(1), 7));
	cr_assert_null(method_cache_find(&state, &cache, seen_with(1)));
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, seen_with(1));

	check_for(entry, VALIDATE_AGE);
	cr_assert_null(method_cache_recall(&state, &cache, seen_with(1)));
	state.runtime.managed_frames = 0;
	cr_assert_eq(method_cache_recall(&state, &cache, seen_with(1)), entry);
}

Test(method_cache, times_wrap_around_at_32_bits)
{
	state.header.time_ns = (uint64_t)(UINT32_MAX - 10) << METHOD_CACHE_TIME_BITS;
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, ADDRESS);

	check_for(entry, VALIDATE_AGE);
	cr_assert(method_cache_is_trusted(&state, entry));
	pass(VALIDATE_INTERVAL);
	cr_assert_not(method_cache_is_trusted(&state, entry));
}

Test(method_cache, the_oldest_entry_is_evicted_first_and_none_is_taken_for_another)
{
	for (uint64_t i = 0; i < 3 * METHOD_CACHE_ENTRIES; i++)
		method_cache_insert(&state, &cache, ADDRESS + i * 16)->facts[0] = (uint32_t)i;
	for (uint64_t i = 0; i < 3 * METHOD_CACHE_ENTRIES; i++) {
		const struct method_cache_entry *entry =
		    method_cache_find(&state, &cache, ADDRESS + i * 16);

		cr_assert(!entry || entry->facts[0] == i);
		cr_assert(!entry || i >= 2 * METHOD_CACHE_ENTRIES);
	}
	cr_assert(method_cache_find(&state, &cache, ADDRESS + (3 * METHOD_CACHE_ENTRIES - 1) * 16));
}

Test(method_cache, entries_are_found_in_order_of_insertion_without_the_index)
{
	for (uint64_t i = 0; i < 4; i++)
		method_cache_insert(&state, &cache, ADDRESS + i * 16)->facts[0] = (uint32_t)i;
	memset(cache.index, 0xff, sizeof(cache.index));
	state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
	for (uint64_t i = 0; i < 4; i++)
		cr_assert_eq(method_cache_find(&state, &cache, ADDRESS + i * 16)->facts[0], i);
	cr_assert_null(method_cache_find(&state, &cache, ADDRESS));
}

Test(method_cache, two_entries_with_the_same_hash_are_both_found)
{
	uint64_t other = ADDRESS;

	do
		other += 16;
	while (method_cache_pair(&cache, other ^ state.runtime.method_key) !=
	       method_cache_pair(&cache, ADDRESS ^ state.runtime.method_key));
	method_cache_insert(&state, &cache, ADDRESS)->facts[0] = 1;
	method_cache_insert(&state, &cache, other)->facts[0] = 2;
	state.runtime.method_position = METHOD_CACHE_ENTRIES / 2;
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS)->facts[0], 1);
	state.runtime.method_position = METHOD_CACHE_ENTRIES / 2;
	cr_assert_eq(method_cache_find(&state, &cache, other)->facts[0], 2);
}

/* If an address was inserted twice, a second search finds the same entry, not the newer one. */
Test(method_cache, a_second_search_finds_the_same_entry)
{
	struct method_cache_entry *older = method_cache_insert(&state, &cache, ADDRESS);

	method_cache_insert(&state, &cache, ADDRESS + 16);
	method_cache_insert(&state, &cache, ADDRESS);
	state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS), older);
	cr_assert_eq(method_cache_find(&state, &cache, ADDRESS), older);
}

/* A walker searches an entry that is not trusted a second time, to record the check. Nothing is
 * inserted twice, although only the order leads to the entries, and all become trusted. */
Test(method_cache, repeated_walks_insert_nothing_twice)
{
	enum {
		METHODS = METHOD_CACHE_ENTRIES - 2
	};

	for (unsigned int round = 0; round <= VALIDATE_AGE; round++) {
		state.runtime.method_position = METHOD_CACHE_ENTRIES - 1;
		for (uint64_t i = 0; i < METHODS; i++) {
			const uint64_t address = ADDRESS + i * 16;
			const struct method_cache_entry *entry =
			    method_cache_find(&state, &cache, address);

			if (entry && method_cache_is_trusted(&state, entry))
				continue;
			struct method_cache_entry *again =
			    method_cache_find(&state, &cache, address);
			cr_assert_eq(again, entry);
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

Test(method_cache, a_stack_with_another_method_has_new_code)
{
	struct method_cache_entry *entry = method_cache_insert(&state, &cache, ADDRESS);

	cr_assert(state.runtime.new_code);
	state.runtime.new_code = 0;
	method_cache_revalidate(&state, entry, 1);
	cr_assert_not(state.runtime.new_code);
	method_cache_revalidate(&state, entry, 0);
	method_cache_revalidate(&state, entry, 1);
	cr_assert(state.runtime.new_code, "it stays so for this stack");
}
