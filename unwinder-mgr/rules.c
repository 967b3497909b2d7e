/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/rules.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

#include "common/clock.h"
#include "common/limits.h"

/* From what the kernel gave this process, as the C library does for its own. */
static uint64_t random_seed(void)
{
	const void *bytes =
	    (const void *)getauxval(AT_RANDOM); /* NOLINT: the kernel's own address */

	return bytes ? XXH3_64bits(bytes, 16) : 0;
}

void rules_init(struct rules *rules, struct bh_rule *table)
{
	memset(rules, 0, sizeof(*rules));
	rules->table = table;
	rules->used = 1;
	rules->seed = random_seed();
	table[0] = (struct bh_rule){.kind = BH_RULE_FRAME_POINTER};
}

static uint16_t *rules_bucket(struct rules *rules, const struct bh_rule *rule)
{
	const uint64_t hash = XXH3_64bits_withSeed(rule, sizeof(*rule), rules->seed);

	return &rules->buckets[hash % RULES_BUCKETS];
}

static uint16_t rules_take_free(struct rules *rules)
{
	uint16_t number = rules->free_first;

	if (number &&
	    clock_monotonic_ns() - rules->freed_ns[number] >= LIMIT_GRACE_MS * 1000000ull) {
		rules->free_first = rules->next[number];
		if (!rules->free_first)
			rules->free_last = 0;
		return number;
	}
	return rules->used < RULES_MAX ? (uint16_t)rules->used++ : 0;
}

int rules_get(struct rules *rules, const struct bh_rule *rule, uint16_t *number)
{
	if (rule->kind == BH_RULE_FRAME_POINTER) {
		*number = 0;
		return 0;
	}
	uint16_t *bucket = rules_bucket(rules, rule);

	for (uint16_t n = *bucket; n; n = rules->next[n]) {
		if (!memcmp(&rules->table[n], rule, sizeof(*rule))) {
			rules->users[n]++;
			*number = n;
			return 0;
		}
	}
	uint16_t n = rules_take_free(rules);
	if (!n)
		return -ENOSPC;
	rules->table[n] = *rule;
	rules->users[n] = 1;
	rules->next[n] = *bucket;
	*bucket = n;
	*number = n;
	return 0;
}

void rules_put(struct rules *rules, uint16_t number, uint64_t now_ns)
{
	if (!number || --rules->users[number])
		return;
	uint16_t *link = rules_bucket(rules, &rules->table[number]);
	while (*link != number)
		link = &rules->next[*link];
	*link = rules->next[number];
	/* To the end of the free ones, so that the first is the oldest. Its contents stay until it
	 * is reused. */
	rules->next[number] = 0;
	rules->freed_ns[number] = now_ns;
	if (rules->free_last)
		rules->next[rules->free_last] = number;
	else
		rules->free_first = number;
	rules->free_last = number;
}
