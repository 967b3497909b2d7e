/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns ids to the rules that cfi_parse() finds, and stores the rules by id; and a sink that only
 * reads every row. For tests and benchmarks. */
#ifndef TESTS_SUPPORT_CFI_RULES_H
#define TESTS_SUPPORT_CFI_RULES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/cfi.h"

enum {
	CFI_RULES_MAX = 1 << 16
};

struct cfi_rules {
	struct cfi_rule *rules; /* CFI_RULES_MAX */
	uint32_t *slots;	/* 2 * CFI_RULES_MAX: ids + 1, by hash */
	uint32_t count;
};

/* Returns 0 or -ENOMEM. */
static inline int cfi_rules_init(struct cfi_rules *rules)
{
	rules->rules = malloc(CFI_RULES_MAX * sizeof(*rules->rules));
	rules->slots = calloc(2 * CFI_RULES_MAX, sizeof(*rules->slots));
	rules->count = 0;
	return rules->rules && rules->slots ? 0 : -ENOMEM;
}

static inline void cfi_rules_fini(struct cfi_rules *rules)
{
	free(rules->rules);
	free(rules->slots);
}

/* Removes all rules, and keeps the memory. */
static inline void cfi_rules_reset(struct cfi_rules *rules)
{
	memset(rules->slots, 0, 2 * CFI_RULES_MAX * sizeof(*rules->slots));
	rules->count = 0;
}

/* Finds the id of a rule, which is the same each time. Returns 0 or -ENOSPC. */
static inline int cfi_rules_id(struct cfi_rules *rules, const struct cfi_rule *rule,
				   uint32_t *id)
{
	uint32_t words[8], hash = 0;

	memcpy(words, rule, sizeof(words));
	for (unsigned int i = 0; i < 8; i++)
		hash = (hash ^ words[i]) * 0x9e3779b1u;
	for (uint32_t i = hash >> 15;; i++) {
		uint32_t *slot = &rules->slots[i % (2 * CFI_RULES_MAX)];

		if (!*slot) {
			if (rules->count == CFI_RULES_MAX)
				return -ENOSPC;
			rules->rules[rules->count] = *rule;
			*slot = ++rules->count;
		}
		if (!memcmp(&rules->rules[*slot - 1], rule, sizeof(*rule))) {
			*id = *slot - 1;
			return 0;
		}
	}
}

/* The context of a sink of cfi_sum_rule and cfi_sum_rows. */
struct cfi_sum {
	struct cfi_rules rules;
	uint64_t sum;
};

static inline int cfi_sum_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct cfi_sum *sum = context;

	return cfi_rules_id(&sum->rules, rule, id);
}

static inline int cfi_sum_rows(void *context, const struct cfi_fde *fde)
{
	struct cfi_sum *sum = context;

	for (unsigned int i = 0; i < fde->row_count; i++)
		sum->sum += (fde->start + fde->rows[i].at) ^ fde->rows[i].rule;
	return 0;
}

#endif
