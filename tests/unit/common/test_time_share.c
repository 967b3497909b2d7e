/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/time_share.h"
#include "common/time_units.h"

Test(time_share, work_that_took_long_is_made_up_for)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};

	cr_assert(time_share_is_left(&share, 100 * NS_PER_S));
	time_share_spend(&share, 3 * NS_PER_S);
	cr_assert_not(time_share_is_left(&share, 100 * NS_PER_S));
	cr_assert_not(time_share_is_left(&share, 104 * NS_PER_S));
	cr_assert_not(time_share_is_left(&share, 108 * NS_PER_S));
	cr_assert(time_share_is_left(&share, 108 * NS_PER_S + 400));
}

Test(time_share, no_more_than_the_maximum_is_saved)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};

	cr_assert(time_share_is_left(&share, 1));
	cr_assert(time_share_is_left(&share, UINT64_MAX / 2));
	time_share_spend(&share, NS_PER_S);
	cr_assert_not(time_share_is_left(&share, UINT64_MAX / 2));
}

Test(time_share, a_very_long_duration_does_not_overflow)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};

	cr_assert(time_share_is_left(&share, 1));
	time_share_spend(&share, UINT64_MAX);
	cr_assert_not(time_share_is_left(&share, 1000 * NS_PER_S));
}

/* A role that asks often must not get less time for it. */
Test(time_share, it_grows_in_small_steps_too)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};
	uint64_t now_ns = NS_PER_S;

	time_share_is_left(&share, now_ns);
	time_share_spend(&share, NS_PER_S);
	for (unsigned int i = 0; i < 1000; i++)
		time_share_is_left(&share, now_ns += 60);
	cr_expect_eq(share.left_ns, 60 * 1000 / 4);
}

/* --- parts --- */

static struct time_share whole = {.percent = 50, .most_ns = NS_PER_S};

/* Lets a part work for as long as it may, in pieces of a tenth of a millisecond. Returns how long
 * that was. */
static uint64_t use_up(struct time_part *part, uint64_t now_ns)
{
	uint64_t used_ns = 0;

	while (time_part_may_begin(part, &whole, 0, now_ns)) {
		time_part_spend(part, &whole, NS_PER_MS / 10, NS_PER_MS / 10);
		used_ns += NS_PER_MS / 10;
	}
	return used_ns;
}

Test(time_share, a_part_gets_as_much_as_is_left_for_others)
{
	struct time_part parts[2] = {0};

	cr_expect_eq(use_up(&parts[0], NS_PER_S), NS_PER_S / 2);
	cr_expect_eq(use_up(&parts[1], NS_PER_S), NS_PER_S / 4);
	cr_expect_eq(use_up(&parts[0], NS_PER_S), 0);
}

/* Many that need all they can get, and one that needs little. */
Test(time_share, a_part_that_needs_little_finds_something_left)
{
	struct time_part greedy[20] = {0}, modest = {0};
	uint64_t used_ns = 0, passed_ns = 0;

	for (uint64_t now_ns = NS_PER_S; passed_ns < 60 * NS_PER_S; passed_ns += 10 * NS_PER_MS) {
		for (int i = 0; i < 20; i++)
			used_ns += use_up(&greedy[i], now_ns + passed_ns);
		if (!passed_ns || passed_ns % NS_PER_S)
			continue;
		cr_assert(time_part_may_begin(&modest, &whole, 0, now_ns + passed_ns), "after %llu",
			  (unsigned long long)passed_ns);
		time_part_spend(&modest, &whole, NS_PER_MS, NS_PER_MS);
	}
	cr_expect_leq(used_ns, NS_PER_S + passed_ns / 2);
	cr_expect_geq(used_ns, passed_ns / 2 - NS_PER_S, "and the others get the rest");
}

Test(time_share, new_parts_do_not_get_more_than_the_whole)
{
	uint64_t used_ns = 0, passed_ns = 0;

	for (; passed_ns < 60 * NS_PER_S; passed_ns += 10 * NS_PER_MS) {
		struct time_part part = {0};

		used_ns += use_up(&part, NS_PER_S + passed_ns);
	}
	cr_expect_leq(used_ns, NS_PER_S + passed_ns / 2);
}

Test(time_share, what_a_part_has_used_decreases)
{
	struct time_part part = {0};

	cr_expect_eq(use_up(&part, NS_PER_S), NS_PER_S / 2);
	for (uint64_t ms = 0; ms < 1000; ms += 10)
		time_part_may_begin(&part, &whole, 0, NS_PER_S + ms * NS_PER_MS);
	cr_expect_lt(part.used_ns, NS_PER_S / 3);
	cr_expect_gt(part.used_ns, NS_PER_S / 4);
	time_part_may_begin(&part, &whole, 0, 100 * NS_PER_S);
	cr_expect_eq(part.used_ns, 0);
}

Test(time_share, work_that_needs_more_than_is_left_does_not_begin)
{
	struct time_part part = {0};

	cr_expect_not(time_part_may_begin(&part, &whole, NS_PER_S / 2, NS_PER_S));
	cr_expect(time_part_may_begin(&part, &whole, NS_PER_S / 2 - 1, NS_PER_S));
	time_part_spend(&part, &whole, NS_PER_S / 4, NS_PER_S / 4);
	cr_expect_not(time_part_may_begin(&part, &whole, NS_PER_S / 4, NS_PER_S));
	cr_expect(time_part_may_begin(&part, &whole, NS_PER_S / 4 - 1, NS_PER_S));
}

Test(time_share, a_very_long_duration_of_a_part_does_not_overflow)
{
	struct time_part part = {0};

	cr_expect(time_part_may_begin(&part, &whole, 0, NS_PER_S));
	for (int i = 0; i < 3; i++)
		time_part_spend(&part, &whole, UINT64_MAX, UINT64_MAX);
	cr_expect_not(time_part_may_begin(&part, &whole, 0, NS_PER_S));
	cr_expect_not(time_part_may_begin(&part, &whole, 0, NS_PER_S + NS_PER_S / 2));
	cr_expect_gt(part.used_ns, 100 * NS_PER_S);
}

/* On a loaded machine, work seems to take long, which is nobody's own time. */
Test(time_share, a_part_uses_its_own_time_only)
{
	struct time_part part = {0}, other = {0};

	cr_expect(time_part_may_begin(&part, &whole, 0, NS_PER_S));
	time_part_spend(&part, &whole, 9 * NS_PER_S / 10, NS_PER_MS);
	cr_expect(time_part_may_begin(&part, &whole, 0, NS_PER_S));
	time_part_spend(&part, &whole, NS_PER_S / 10, NS_PER_MS);
	cr_expect_not(time_part_may_begin(&part, &whole, 0, NS_PER_S));
	cr_expect_not(time_part_may_begin(&other, &whole, 0, NS_PER_S));
	cr_expect_eq(part.used_ns, 2 * NS_PER_MS);
}

/* However many processes a tenant has, those of another one have time at once. */
Test(time_share, a_group_with_many_parts_leaves_time_to_others)
{
	enum {
		MEMBERS = 1000,
		WORK_NS = NS_PER_MS / 10,
	};
	static struct time_part members[MEMBERS];
	struct time_part group = {0}, other = {0}, other_group = {0};
	uint64_t now_ns = NS_PER_S, spent_ns = 0;

	for (int i = 0; i < 10000; i++) {
		struct time_part *member = &members[i % MEMBERS];

		now_ns += NS_PER_MS;
		if (!time_part_may_begin(member, &whole, 0, now_ns) ||
		    !time_group_may_begin(&group, &whole, now_ns))
			continue;
		time_part_spend(member, &whole, 2 * NS_PER_MS, 2 * NS_PER_MS);
		time_group_spend(&group, 2 * NS_PER_MS);
		spent_ns += 2 * NS_PER_MS;
	}
	cr_expect_gt(spent_ns, 2 * NS_PER_S, "it alone gets most of the time: %llu ns",
		     (unsigned long long)spent_ns);
	cr_expect_gt(whole.left_ns, (int64_t)(whole.most_ns / 20), "%lld ns are left",
		     (long long)whole.left_ns);
	cr_expect(time_part_may_begin(&other, &whole, WORK_NS, now_ns));
	cr_expect(time_group_may_begin(&other_group, &whole, now_ns));
}
