/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>

#include "common/clock.h"
#include "unwinder-mgr/limits.h"
#include "unwinder-mgr/rules.h"

static const uint64_t GRACE_NS = LIMIT_GRACE_MS * NS_PER_MS;
static uint32_t unlimited = UINT32_MAX;

static struct rules *rules_new(void)
{
	struct rules *rules = calloc(1, sizeof(*rules));

	rules_init(rules, calloc(RULES_MAX, sizeof(struct bh_rule)));
	return rules;
}

static void rules_free(struct rules *rules)
{
	free(rules->table);
	free(rules);
}

/* Returns the i-th of many different rules. */
static struct bh_rule rule_of(uint32_t i)
{
	return (struct bh_rule){.kind = BH_RULE_SP, .cfa = (int32_t)i + 8, .fp_kind = BH_FP_CFA, .fp = -2};
}

static uint16_t get(struct rules *rules, uint32_t i)
{
	const struct bh_rule rule = rule_of(i);
	uint16_t id = 0;

	cr_assert_eq(rules_get(rules, &rule, &unlimited, &id), 0, "rule %u", i);
	cr_assert_neq(id, 0);
	cr_assert_eq(memcmp(&rules->table[id], &rule, sizeof(rule)), 0);
	return id;
}

/* Returns a time whose grace period has ended. */
static uint64_t long_ago(void)
{
	return clock_monotonic_ns() - GRACE_NS;
}

Test(rules, equal_rules_have_one_id_and_a_use_count)
{
	struct rules *rules = rules_new();
	const uint16_t a = get(rules, 1), b = get(rules, 2);

	cr_assert_neq(a, b);
	cr_assert_eq(get(rules, 1), a);
	cr_assert_eq(rules->users[a], 2);
	cr_assert_eq(rules->users[b], 1);
	rules_put(rules, a, long_ago());
	cr_assert_eq(get(rules, 1), a, "one user is left");
	rules_free(rules);
}

Test(rules, rules_that_differ_in_one_field_are_different)
{
	struct rules *rules = rules_new();
	const struct bh_rule all[] = {
		{.kind = BH_RULE_SP},		{.kind = BH_RULE_FP},
		{.kind = BH_RULE_SP, .reg = 3}, {.kind = BH_RULE_SP, .fp_kind = BH_FP_CFA},
		{.kind = BH_RULE_SP, .cfa = 8}, {.kind = BH_RULE_SP, .bx_kind = BH_FP_CFA},
		{.kind = BH_RULE_SP, .fp = -2}, {.kind = BH_RULE_SP, .bx = -2},
		{.kind = BH_RULE_SP, .extra = 8},
	};
	enum { COUNT = sizeof(all) / sizeof(all[0]) };

	for (uint16_t i = 0; i < COUNT; i++) {
		uint16_t id;

		cr_assert_eq(rules_get(rules, &all[i], &unlimited, &id), 0);
		cr_assert_eq(id, i + BH_RULE_IDS_FIXED);
	}
	rules_free(rules);
}

Test(rules, frame_pointers_are_rule_0_and_not_counted)
{
	struct rules *rules = rules_new();
	const struct bh_rule rule = {.kind = BH_RULE_FRAME_POINTER};
	uint16_t id = 77;

	cr_assert_eq(rules->table[0].kind, BH_RULE_FRAME_POINTER);
	cr_assert_eq(rules_get(rules, &rule, &unlimited, &id), 0);
	cr_assert_eq(id, 0);
	/* Rule 0 is not counted, so putting it once more does no harm. */
	rules_put(rules, 0, long_ago());
	rules_put(rules, 0, long_ago());
	cr_assert_neq(get(rules, 1), 0);
	cr_assert_neq(get(rules, 2), 0);
	rules_free(rules);
}

Test(rules, id_is_not_reused_within_the_grace_period)
{
	struct rules *rules = rules_new();
	const uint16_t a = get(rules, 1);
	const struct bh_rule old = rules->table[a];

	rules_put(rules, a, clock_monotonic_ns());
	/* A walker may still read it: neither another rule nor the same one gets its id. */
	cr_assert_neq(get(rules, 2), a);
	const uint16_t again = get(rules, 1);
	cr_assert_neq(again, a);
	cr_assert_eq(memcmp(&rules->table[a], &old, sizeof(old)), 0);
	rules->freed_ns[a] -= GRACE_NS;
	cr_assert_eq(get(rules, 3), a);
	/* The id that was assigned in the meantime is still found. */
	cr_assert_eq(get(rules, 1), again);
	rules_free(rules);
}

Test(rules, oldest_unused_id_is_reused_first)
{
	struct rules *rules = rules_new();
	uint16_t ids[10];

	for (uint32_t i = 0; i < 10; i++)
		ids[i] = get(rules, i);
	for (uint32_t i = 0; i < 10; i++)
		rules_put(rules, ids[9 - i], long_ago());
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(get(rules, 100 + i), ids[9 - i]);
	cr_assert_eq(get(rules, 200), ids[9] + 1, "none is free any more");
	rules_free(rules);
}

Test(rules, full_table_refuses_new_rules_until_ids_are_free)
{
	struct rules *rules = rules_new();
	struct bh_rule rule = rule_of(RULES_MAX);
	uint16_t id = 77;

	for (uint32_t i = BH_RULE_IDS_FIXED; i < RULES_MAX; i++)
		cr_assert_eq(get(rules, i), i);
	cr_expect_eq(rules_room(rules), 0);
	cr_assert_eq(rules_get(rules, &rule, &unlimited, &id), -ENOSPC);
	cr_assert_eq(id, 77, "untouched on failure");
	cr_assert_eq(get(rules, 5), 5, "an existing rule needs no new id");
	rules_put(rules, 5, long_ago());
	/* An id that was just put back is still within the grace period. */
	rules_put(rules, 60000, clock_monotonic_ns());
	cr_assert_eq(rules_get(rules, &rule, &unlimited, &id), -ENOSPC);
	rules_put(rules, 7, long_ago());
	rules->freed_ns[60000] -= GRACE_NS;
	cr_assert_eq(get(rules, RULES_MAX), 60000);
	cr_assert_eq(get(rules, RULES_MAX + 1), 7);
	rules_put(rules, 5, long_ago());
	cr_assert_eq(get(rules, RULES_MAX + 2), 5);
	rule = rule_of(RULES_MAX + 3);
	cr_assert_eq(rules_get(rules, &rule, &unlimited, &id), -ENOSPC);
	rules_free(rules);
}

/* Ten times as many rules as fit come and go. */
Test(rules, table_does_not_fill_up_over_time)
{
	enum { AT_ONCE = 50000, ROUNDS = 13 };
	struct rules *rules = rules_new();
	uint16_t *ids = malloc(AT_ONCE * sizeof(*ids));

	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < AT_ONCE; i++)
			ids[i] = get(rules, round * AT_ONCE + i);
		for (uint32_t i = 0; i < AT_ONCE; i++)
			cr_assert_eq(get(rules, round * AT_ONCE + i), ids[i]);
		for (uint32_t i = 0; i < 2 * AT_ONCE; i++)
			rules_put(rules, ids[i % AT_ONCE], long_ago());
	}
	for (uint32_t i = 0; i < RULES_MAX; i++)
		cr_assert_eq(rules->users[i], 0);
	for (uint32_t i = 0; i < RULES_BUCKETS; i++)
		cr_assert_eq(rules->buckets[i], 0);
	free(ids);
	rules_free(rules);
}

/* The model is an array of use counts by content. */
Test(rules, random_uses_agree_with_a_model)
{
	enum { CONTENTS = 3000, STEPS = 400000 };
	struct rules *rules = rules_new();
	uint32_t *counts = calloc(CONTENTS, sizeof(*counts));
	uint16_t *ids = calloc(CONTENTS, sizeof(*ids));
	uint64_t seed = 1;

	for (uint32_t step = 0; step < STEPS; step++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		const uint32_t i = (uint32_t)(seed >> 40) % CONTENTS;

		if (seed >> 63) {
			const uint16_t id = get(rules, i);

			cr_assert(!counts[i] || id == ids[i]);
			ids[i] = id;
			counts[i]++;
		} else if (counts[i]) {
			rules_put(rules, ids[i], long_ago());
			counts[i]--;
		}
		cr_assert(!counts[i] || rules->users[ids[i]] == counts[i]);
	}
	/* No two rules have the same id. */
	uint8_t *seen = calloc(RULES_MAX, 1);
	for (uint32_t i = 0; i < CONTENTS; i++) {
		if (!counts[i])
			continue;
		cr_assert_eq(seen[ids[i]]++, 0);
		cr_assert_eq(rules->users[ids[i]], counts[i]);
	}
	cr_assert_leq(rules->used, CONTENTS + BH_RULE_IDS_FIXED, "unused ids are reused");
	free(seen);
	free(counts);
	free(ids);
	rules_free(rules);
}
