/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rules, shared by all modules of the host: interned, counted by module, given back
 * when no module uses them. */
#ifndef UNWINDER_MGR_RULES_H
#define UNWINDER_MGR_RULES_H

#include <stdint.h>

#include "bpf/shared.h"

enum {
	RULES_MAX = 1 << BH_RULES_BITS,
	RULES_BUCKETS = 1 << 16
};

struct rules {
	struct bh_rule *table; /* RULES_MAX, mapped; rule 0 is "frame pointers" */
	uint64_t seed;	       /* of the hash: a file's author shall not choose its rules' bucket */
	uint32_t users[RULES_MAX];
	uint16_t next[RULES_MAX]; /* in its bucket, or in the list of free ones; 0 ends */
	uint16_t buckets[RULES_BUCKETS];
	uint64_t freed_ns[RULES_MAX];
	uint16_t free_first, free_last;
	uint32_t used; /* numbers handed out so far */
};

void rules_init(struct rules *rules, struct bh_rule *table);

/* The number of a rule, with one more user. 0 or -ENOSPC if all are in use. */
int rules_get(struct rules *rules, const struct bh_rule *rule, uint16_t *number);

/* One user less; unused numbers are reused after the grace period. */
void rules_put(struct rules *rules, uint16_t number, uint64_t now_ns);

#endif
