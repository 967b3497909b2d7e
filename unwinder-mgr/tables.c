/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"

enum {
	PAGE_BYTES = 1 << BH_PAGE_BITS,
	PAGES_MAX = BH_SLAB_BYTES / sizeof(struct bh_page),
	PAGE_DELTAS_BYTES = PAGE_BYTES * sizeof(struct bh_delta), /* a rule for each byte */
	DELTA_BLOCK_BYTES =
	    128 << 10, /* small enough to fit between others, large enough to be few */
};

/* Rows walked page by page, into deltas, which are written where they will be read. */
struct placement {
	const struct table_draft *draft;
	struct slabs *slabs;
	struct table *table;
	size_t rows_left; /* to be placed, of whole runs */
	struct bh_page *pages;
	uint32_t page;		/* that is being written, counted from the table's first */
	uint64_t page_end;	/* file offset */
	uint16_t rule;		/* in force */
	struct bh_delta *first; /* of this page, in the last block; there is room for all */
	struct bh_delta *next;
	uint32_t block_used;   /* bytes of the last block that are earlier pages' */
	struct bh_page shared; /* the last page with one delta only, and its rule */
	uint16_t shared_rule;
};

static struct slab_block *place_block(const struct placement *p)
{
	return &p->table->deltas[p->table->delta_block_count - 1];
}

/* What follows the deltas of the last page is not needed, unless as the begin of the next block. */
static void place_trim_block(const struct placement *p)
{
	if (p->table->delta_block_count)
		slabs_shrink(p->slabs, place_block(p), p->block_used);
}

/* A new block, with room for one page at least. */
static int place_add_block(struct placement *p)
{
	struct table *table = p->table;
	const size_t pages_left = table->page_count - p->page;
	size_t bytes = (p->rows_left + pages_left) * sizeof(struct bh_delta) + PAGE_DELTAS_BYTES;

	if (bytes > DELTA_BLOCK_BYTES)
		bytes = DELTA_BLOCK_BYTES;
	struct slab_block *grown =
	    realloc(table->deltas, (table->delta_block_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	table->deltas = grown;
	place_trim_block(p);
	int r = slabs_alloc(p->slabs, bytes, &table->deltas[table->delta_block_count]);
	if (r < 0)
		return r;
	table->delta_block_count++;
	p->block_used = 0;
	return 0;
}

static int place_begin_page(struct placement *p)
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

/* Pages of one delta share it. */
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

/* On to the page that has `offset`. */
static int place_turn(struct placement *p, uint32_t offset)
{
	int r = 0;

	while (offset >= p->page_end && !r) {
		place_end_page(p);
		p->page_end += PAGE_BYTES;
		r = place_begin_page(p);
	}
	return r;
}

/* Rows from `offset` on, behind all that were placed. */
static int place_rows(struct placement *p, uint32_t offset, const struct table_row *rows,
		      size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint16_t rule = rows[i].rule;

		offset += rows[i].advance;
		if (offset >= p->page_end) {
			int r = place_turn(p, offset);

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

/* All runs, and what is between them. */
static int place_runs(struct placement *p)
{
	static const struct table_row nothing = {0, 0};
	const struct table_draft *draft = p->draft;
	int r = place_begin_page(p);

	for (size_t i = 0; i < draft->run_count && !r; i++) {
		const struct table_run *run = &draft->runs[i];
		const bool last = i + 1 == draft->run_count;

		r = place_rows(p, run->start, &draft->rows[run->first_row], run->row_count);
		p->rows_left -= run->row_count;
		if (!r && (last || run[1].start - run->end >= TABLE_HOLE_BYTES))
			r = place_rows(p, run->end, &nothing, 1);
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

int table_place(struct table *table, struct table_draft *draft, struct slabs *slabs)
{
	const uint32_t last = draft->runs[draft->run_count - 1].end;
	struct table placed = {.first_page = draft->runs[0].start >> BH_PAGE_BITS};
	struct placement p = {
	    .draft = draft, .slabs = slabs, .table = &placed, .rows_left = draft->row_count};

	placed.page_count = (last >> BH_PAGE_BITS) - placed.first_page + 1;
	if (placed.page_count > PAGES_MAX)
		return -EFBIG;
	p.page_end = ((uint64_t)placed.first_page + 1) << BH_PAGE_BITS;
	int r = slabs_alloc(slabs, placed.page_count * sizeof(struct bh_page), &placed.pages);
	if (r < 0)
		return r;
	p.pages = slabs_at(slabs, &placed.pages);
	r = place_runs(&p);
	if (r < 0) {
		/* Nobody has seen them. */
		table_free_blocks(&placed, slabs, slabs_release);
		return r;
	}
	placed.rules = TAKE_PTR(draft->rules);
	placed.rule_count = draft->rule_count;
	placed.bytes = placed.pages.bytes;
	for (size_t i = 0; i < placed.delta_block_count; i++)
		placed.bytes += placed.deltas[i].bytes;
	draft->rule_count = 0;
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
