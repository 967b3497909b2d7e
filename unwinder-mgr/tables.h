/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module's unwind table: from the file's call frame information to pages and deltas in slabs, in
 * two steps, since the second may have to wait for memory: draft (rows, in this process's own
 * memory), then placement.
 */
#ifndef UNWINDER_MGR_TABLES_H
#define UNWINDER_MGR_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "parse/elf_image.h"
#include "unwinder-mgr/rules.h"
#include "unwinder-mgr/slabs.h"

/* From this file offset on, this rule. */
struct table_row {
	uint32_t offset;
	uint16_t rule;
	uint16_t is_end; /* sorts before the start of another function at the same place */
};

struct table_draft {
	struct table_row *rows;
	size_t row_count, row_capacity;
	uint16_t *rules; /* those that the draft holds a use of */
	size_t rule_count, rule_capacity;
	uint64_t bad_fdes;
};

struct table {
	uint32_t first_page, page_count;
	struct slab_block pages;
	struct slab_block *deltas;
	size_t delta_block_count;
	uint16_t *rules;
	size_t rule_count;
	size_t bytes; /* in slabs */
};

/* Read the file's .eh_frame (found by section, or through .eh_frame_hdr's program header) and
 * .debug_frame. 0; -ENODATA: it has none that says anything (frame pointers then); -ENOSPC: the
 * rule table is full; -ENOMEM; -ENOEXEC. */
int table_draft(struct table_draft *draft, struct rules *rules, const struct elf_source *source);
void table_draft_fini(struct table_draft *draft, struct rules *rules, uint64_t now_ns);

/* Place a draft in slabs; its rules go over to the table. 0; -EAGAIN: try again when a slab came;
 * -ENOSPC; -EFBIG: more text than a page index can cover. */
int table_place(struct table *table, struct table_draft *draft, struct slabs *slabs);

/* Give back memory and rules, after the grace period. */
void table_retire(struct table *table, struct slabs *slabs, struct rules *rules, uint64_t now_ns);

#endif
