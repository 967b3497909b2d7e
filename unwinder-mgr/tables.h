/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module's unwind table in the form that the walker reads: pages and deltas in slabs.
 *
 * How this works. The page index has one entry (struct bh_page) for each KiB of the file from the
 * first to the last described byte. An entry says where the deltas of its page are and how many.
 * A delta (struct bh_delta) says from which byte of the page on which rule applies. The first
 * delta of a page has offset 0, so the walker finds the rule of an address by one binary search in
 * one page. A page with a single delta shares that of the last such page, if the rules are equal.
 *
 * The pages are filled from the builder's ranges in one pass, directly in the slab. Deltas go to
 * blocks of 128 KiB, and what a block does not need is given back. After a range, where nothing is
 * described, rule 0 (frame pointers) applies, except in a gap too small to matter.
 *
 * Example: the rows {0x1000, rule 5} {0x1004, rule 6} up to 0x1600, and a range of rule 5 that is
 * 0x2000 to 0x2400:
 *
 *	page 4: {0, 5} {4, 6}    page 5: {0, 6} {0x200, 0}
 *	page 6: {0, 0}           page 7: {0, 0}, the same delta as page 6
 *	page 8: {0, 5}           page 9: {0, 0}
 */
#ifndef UNWINDER_MGR_TABLES_H
#define UNWINDER_MGR_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "unwinder-mgr/rules.h"
#include "unwinder-mgr/slabs.h"
#include "unwinder-mgr/unwind_table_builder.h"

struct table {
	uint32_t first_page, page_count;
	struct slab_block pages;
	struct slab_block *deltas;
	size_t delta_block_count, delta_block_capacity;
	uint16_t *rules; /* ids, of each of which the table holds one use */
	size_t rule_count;
	size_t bytes; /* in slabs */
};

/* Returns how many bytes of slabs a builder's rows need at most. */
uint64_t table_bytes_most(const struct unwind_table_builder *builder);

/* Places a builder's rows in slabs and takes over its rules; the builder is left to be freed.
 * Returns 0; -EAGAIN if it must be tried again when a slab has come; -ENOSPC if none will come;
 * -EFBIG if the code is larger than a page index can cover; or -ENOMEM. On failure both are as
 * before. */
int table_place(struct table *table, struct unwind_table_builder *builder, struct slabs *slabs);

/* Gives back the table's memory and rules, after the grace period. */
void table_retire(struct table *table, struct slabs *slabs, struct rules *rules, uint64_t now_ns);

#endif
