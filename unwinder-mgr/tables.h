/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module's unwind table: pages and deltas in slabs. Made in two steps, since the second may have
 * to wait for memory: a draft (table_draft.h), then its placement.
 */
#ifndef UNWINDER_MGR_TABLES_H
#define UNWINDER_MGR_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "unwinder-mgr/rules.h"
#include "unwinder-mgr/slabs.h"
#include "unwinder-mgr/table_draft.h"

struct table {
	uint32_t first_page, page_count;
	struct slab_block pages;
	struct slab_block *deltas;
	size_t delta_block_count;
	uint16_t *rules;
	size_t rule_count;
	size_t bytes; /* in slabs */
};

/* Place a draft in slabs; its rules go over to the table. 0; -EAGAIN: try again when a slab came;
 * -ENOSPC; -EFBIG: more text than a page index can cover. */
int table_place(struct table *table, struct table_draft *draft, struct slabs *slabs);

/* Give back memory and rules, after the grace period. */
void table_retire(struct table *table, struct slabs *slabs, struct rules *rules, uint64_t now_ns);

#endif
