/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of unwind rules, which all modules of the machine share and BPF reads.
 *
 * How this works. Compilers produce few distinct rules, so each exists once: rules_get looks a rule
 * up by its content in a hash table with chains and assigns a free id if it is new. An id has a use
 * count, one use for each module that refers to it. An id without uses goes to the end of a queue
 * and is reused after the grace period, since a walker may still be reading a table that refers to
 * it. Until then the rule's content stays in place. One array links both the chains and the
 * queue, because an id is in one of them only.
 *
 * Example: two modules use "CFA = rsp + 16". The first rules_get assigns id 7 with one use, the
 * second returns 7 and makes it two. After both rules_put, 7 is the last of the queue. A third
 * module that needs the rule again gets another id, since 7 is no longer in the hash table.
 */
#ifndef UNWINDER_MGR_RULES_H
#define UNWINDER_MGR_RULES_H

#include <stdint.h>

#include "bpf/shared.h"

enum {
	RULES_MAX = 1 << BH_RULES_BITS,
	RULES_BUCKETS = 1 << 16
};

struct rules {
	struct bh_rule *table; /* RULES_MAX of them, mapped; the first ones are BH_RULE_ID_* */
	uint64_t seed; /* of the hash, so that the author of a file cannot fill one bucket */
	uint32_t users[RULES_MAX];
	uint16_t next[RULES_MAX]; /* the next id in the chain or in the queue; 0 ends both */
	uint16_t buckets[RULES_BUCKETS];
	uint64_t freed_ns[RULES_MAX];
	uint16_t free_first, free_last; /* the queue of unused ids, oldest first */
	uint32_t used;			/* ids that were ever assigned */
	uint32_t count;			/* ids that have a use */
};

/* Starts with an empty table; `table` is borrowed. `rules` is all zeros: it has a megabyte, of
 * which a role should touch no more than it uses. */
void rules_init(struct rules *rules, struct bh_rule *table);

/* Returns how many further rules fit at most. */
static inline uint32_t rules_room(const struct rules *rules)
{
	return RULES_MAX - BH_RULE_IDS_FIXED - rules->count;
}

/* Sets `*id` to the id of a rule and adds one use. Rule 0 needs no use. If the rule is not in the
 * table, `*may_add` is how many the caller may still add, and is reduced by one. Returns 0, or
 * -ENOSPC if the caller may not add a rule, or all ids are in use or within the grace period. */
int rules_get(struct rules *rules, const struct bh_rule *rule, uint32_t *may_add, uint16_t *id);

/* Takes one use back. An id without uses is assigned again after the grace period. */
void rules_put(struct rules *rules, uint16_t id, uint64_t now_ns);

#endif
