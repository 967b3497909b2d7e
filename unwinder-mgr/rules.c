/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see rules.h. */
#include "unwinder-mgr/rules.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

#include "common/clock.h"
#include "unwinder-mgr/limits.h"

/* Takes the 16 random bytes that the kernel gave this process at its start (AT_RANDOM), as the C
 * library does for its own secrets. */
static uint64_t random_seed(void)
{
	const void *bytes =
	    (const void *)getauxval(AT_RANDOM); /* NOLINT: an address from the kernel */

	return bytes ? XXH3_64bits(bytes, 16) : 0;
}

void rules_init(struct rules *rules, struct bh_rule *table)
{
	rules->table = table;
	rules->used = BH_RULE_IDS_FIXED;
	rules->seed = random_seed();
	table[BH_RULE_ID_FRAME_POINTER] = (struct bh_rule){.kind = BH_RULE_FRAME_POINTER};
	table[BH_RULE_ID_REFUSED] = (struct bh_rule){.kind = BH_RULE_REFUSED};
	table[BH_RULE_ID_COMPAT] = (struct bh_rule){.kind = BH_RULE_COMPAT};
}

static uint16_t *rules_bucket(struct rules *rules, const struct bh_rule *rule)
{
	const uint64_t hash = XXH3_64bits_withSeed(rule, sizeof(*rule), rules->seed);

	return &rules->buckets[hash % RULES_BUCKETS];
}

static uint16_t rules_take_free(struct rules *rules)
{
	const uint16_t id = rules->free_first;

	if (id && clock_monotonic_ns() - rules->freed_ns[id] >= LIMIT_GRACE_MS * NS_PER_MS) {
		rules->free_first = rules->next[id];
		if (!rules->free_first)
			rules->free_last = 0;
		return id;
	}
	return rules->used < RULES_MAX ? (uint16_t)rules->used++ : 0;
}

int rules_get(struct rules *rules, const struct bh_rule *rule, uint32_t *may_add, uint16_t *id)
{
	if (rule->kind == BH_RULE_FRAME_POINTER) {
		*id = BH_RULE_ID_FRAME_POINTER;
		return 0;
	}
	uint16_t *bucket = rules_bucket(rules, rule);

	for (uint16_t n = *bucket; n; n = rules->next[n]) {
		if (!memcmp(&rules->table[n], rule, sizeof(*rule))) {
			rules->users[n]++;
			*id = n;
			return 0;
		}
	}
	uint16_t n = *may_add ? rules_take_free(rules) : 0;
	if (!n)
		return -ENOSPC;
	(*may_add)--;
	rules->count++;
	rules->table[n] = *rule;
	rules->users[n] = 1;
	rules->next[n] = *bucket;
	*bucket = n;
	*id = n;
	return 0;
}

void rules_put(struct rules *rules, uint16_t id, uint64_t now_ns)
{
	if (id < BH_RULE_IDS_FIXED || --rules->users[id])
		return;
	uint16_t *link = rules_bucket(rules, &rules->table[id]);
	while (*link != id)
		link = &rules->next[*link];
	*link = rules->next[id];
	rules->next[id] = 0;
	rules->count--;
	rules->freed_ns[id] = now_ns;
	if (rules->free_last)
		rules->next[rules->free_last] = id;
	else
		rules->free_first = id;
	rules->free_last = id;
}
