/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see tables.h. */
#include "unwinder-mgr/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"

enum {
	PAGE_BYTES = 1 << BH_PAGE_BITS,
	PAGES_MAX = BH_SLAB_BYTES / sizeof(struct bh_page),
	/* The worst case: another rule for each byte of a page. */
	PAGE_DELTAS_BYTES = PAGE_BYTES * sizeof(struct bh_delta),
	/* Small enough to fit between other blocks in a slab of 2 MiB, and large enough that the
	 * largest module needs few. */
	DELTA_BLOCK_BYTES = 128 << 10,
	DELTA_BLOCKS_FIRST = 1,
};

/* The state of the pass over a builder's rows, which writes pages and deltas into slabs. */
struct placement {
	const struct unwind_table_builder *builder;
	struct slabs *slabs;
	struct table *table;
	size_t rows_left; /* that are not placed yet, counted by whole ranges */
	struct bh_page *pages;
	uint32_t page;		/* the one that is being written, counted from the table's first */
	uint64_t page_end;	/* file offset where that page ends */
	uint16_t rule;		/* the one that applies at this point */
	struct bh_delta *first; /* of this page, in the last block, which has room for all */
	struct bh_delta *next;
	uint32_t block_used;   /* bytes of the last block that belong to earlier pages */
	struct bh_page shared; /* the last page with a single delta, and that delta's rule */
	uint16_t shared_rule;
};

static struct slab_block *place_block(const struct placement *p)
{
	return &p->table->deltas[p->table->delta_block_count - 1];
}

/* Gives back what the last block has beyond the deltas of its last page. */
static void place_trim_block(const struct placement *p)
{
	if (p->table->delta_block_count)
		slabs_shrink(p->slabs, place_block(p), p->block_used);
}

/* Adds a block that has room for the rest, or for as much as a block may hold; always for one
 * page. */
static int place_add_block(struct placement *p)
{
	struct table *table = p->table;
	const size_t pages_left = table->page_count - p->page;
	size_t bytes = (p->rows_left + pages_left) * sizeof(struct bh_delta) + PAGE_DELTAS_BYTES;

	if (bytes > DELTA_BLOCK_BYTES)
		bytes = DELTA_BLOCK_BYTES;
	int r = ARRAY_RESERVE(table->deltas, table->delta_block_capacity,
			      table->delta_block_count + 1, DELTA_BLOCKS_FIRST, ARRAY_UNLIMITED);
	if (r < 0)
		return r;
	place_trim_block(p);
	r = slabs_alloc(p->slabs, bytes, &table->deltas[table->delta_block_count]);
	if (r < 0)
		return r;
	table->delta_block_count++;
	p->block_used = 0;
	return 0;
}

static int place_start_page(struct placement *p)
{
	if (!p->table->delta_block_count ||
	    p->block_used + PAGE_DELTAS_BYTES > place_block(p)->bytes) {
		int r = place_add_block(p);

		if (r < 0)
			return r;
	}
	uint8_t *block = slabs_at(p->slabs, place_block(p));
	p->first = (struct bh_delta *)(block + p->block_used);
	p->first[0] = (struct bh_delta){0, p->rule};
	p->next = p->first + 1;
	return 0;
}

/* Completes the page. If it has a single delta, with the same rule as the last such page, both
 * share that delta. */
static void place_end_page(struct placement *p)
{
	const struct slab_block *block = place_block(p);
	const uint32_t count = (uint32_t)(p->next - p->first);
	const uint16_t first_rule = p->first[0].rule;

	if (count == 1 && p->shared.count && p->shared_rule == first_rule) {
		p->pages[p->page++] = p->shared;
		return;
	}
	p->pages[p->page] = (struct bh_page){.offset = block->offset + p->block_used,
					     .slab = (uint16_t)block->slab,
					     .count = (uint16_t)count};
	p->block_used += count * (uint32_t)sizeof(struct bh_delta);
	if (count == 1) {
		p->shared = p->pages[p->page];
		p->shared_rule = first_rule;
	}
	p->page++;
}

/* Completes pages until the current one contains `offset`. */
static int place_advance(struct placement *p, uint32_t offset)
{
	int r = 0;

	while (offset >= p->page_end && !r) {
		place_end_page(p);
		p->page_end += PAGE_BYTES;
		r = place_start_page(p);
	}
	return r;
}

/* Places rows that start at `offset`, which is not before any row placed so far. A row at the very
 * start of a page replaces the rule that applied up to there. */
static int place_rows(struct placement *p, uint32_t offset, const struct unwind_row *rows,
		      size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint16_t rule = rows[i].rule;

		offset += rows[i].advance;
		if (offset >= p->page_end) {
			int r = place_advance(p, offset);

			if (r < 0)
				return r;
		}
		if (rule == p->rule)
			continue;
		p->rule = rule;
		const uint16_t low = offset % PAGE_BYTES;
		if (!low)
			p->next = p->first;
		*p->next++ = (struct bh_delta){low, rule};
	}
	return 0;
}

/* Places all ranges. After each one rule 0 applies, except in a gap too small to matter. */
static int place_ranges(struct placement *p)
{
	static const struct unwind_row frame_pointers = {0, 0};
	const struct unwind_table_builder *builder = p->builder;
	int r = place_start_page(p);

	for (size_t i = 0; i < builder->ranges.count && !r; i++) {
		const struct unwind_range *range = &builder->ranges.items[i];
		const bool last = i + 1 == builder->ranges.count;

		r = place_rows(p, range->start, &builder->rows[range->first_row], range->row_count);
		p->rows_left -= range->row_count;
		if (!r && (last || range[1].start - range->end >= UNWIND_GAP_BYTES))
			r = place_rows(p, range->end, &frame_pointers, 1);
	}
	if (r < 0)
		return r;
	place_end_page(p);
	place_trim_block(p);
	return 0;
}

static void table_free_blocks(struct table *table, struct slabs *slabs,
			      void (*give_back)(struct slabs *, const struct slab_block *))
{
	give_back(slabs, &table->pages);
	for (size_t i = 0; i < table->delta_block_count; i++)
		give_back(slabs, &table->deltas[i]);
	free(table->deltas);
}

/* Returns how many pages there are from the first to the last described byte. */
static uint32_t builder_page_count(const struct unwind_table_builder *builder)
{
	const struct unwind_ranges *ranges = &builder->ranges;
	const uint32_t last = ranges->items[ranges->count - 1].end;

	return (last >> BH_PAGE_BITS) - (ranges->items[0].start >> BH_PAGE_BITS) + 1;
}

uint64_t table_bytes_most(const struct unwind_table_builder *builder)
{
	const uint64_t pages = builder_page_count(builder);
	/* Each page begins with a delta, and each range ends with one. */
	const uint64_t deltas = pages + builder->row_count + builder->ranges.count;

	return pages * sizeof(struct bh_page) + deltas * sizeof(struct bh_delta);
}

int table_place(struct table *table, struct unwind_table_builder *builder, struct slabs *slabs)
{
	struct table placed = {.first_page = builder->ranges.items[0].start >> BH_PAGE_BITS,
			       .page_count = builder_page_count(builder)};
	struct placement p = {
	    .builder = builder, .slabs = slabs, .table = &placed, .rows_left = builder->row_count};

	if (placed.page_count > PAGES_MAX)
		return -EFBIG;
	p.page_end = ((uint64_t)placed.first_page + 1) << BH_PAGE_BITS;
	int r = slabs_alloc(slabs, placed.page_count * sizeof(struct bh_page), &placed.pages);
	if (r < 0)
		return r;
	p.pages = slabs_at(slabs, &placed.pages);
	r = place_ranges(&p);
	if (r < 0) {
		/* No walker has seen the blocks, so no grace period is needed. */
		table_free_blocks(&placed, slabs, slabs_release);
		return r;
	}
	placed.rules = TAKE_PTR(builder->rules);
	placed.rule_count = builder->rule_count;
	placed.bytes = placed.pages.bytes;
	for (size_t i = 0; i < placed.delta_block_count; i++)
		placed.bytes += placed.deltas[i].bytes;
	builder->rule_count = 0;
	*table = placed;
	return 0;
}

void table_retire(struct table *table, struct slabs *slabs, struct rules *rules, uint64_t now_ns)
{
	table_free_blocks(table, slabs, slabs_retire);
	for (size_t i = 0; i < table->rule_count; i++)
		rules_put(rules, table->rules[i], now_ns);
	free(table->rules);
	*table = (struct table){0};
}
