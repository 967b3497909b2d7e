/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables that are made from the rules of a case. Only those places in the code have a rule
 * at which the recorded walk needed one. At all others the rule is UNKNOWN, so that a walk that
 * differs from the recorded one ends there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/fixture.h"

enum {
	RULE_FRAME_POINTER, /* rule 0 is always this one */
	RULE_NOT_RECORDED,
	RULE_FIRST,
	PAGES_MAX = 1 << 17, /* half a slab */
	PAGE_BYTES = 1 << BH_PAGE_BITS,
};

struct fixture_memory {
	uint8_t *slabs[BH_SLABS_MAX];
	uint32_t slab, used; /* the next free byte */
	struct bh_module modules[1 << BH_MODULES_BITS];
	struct bh_rule rules[1 << BH_RULES_BITS];
	struct case_rule sorted[CASE_RULES_MAX]; /* in the table from RULE_FIRST on */
};

struct place {
	uint32_t slab, offset;
	void *data;
};

static int place_take(struct fixture_memory *memory, size_t bytes, struct place *place)
{
	if (bytes > BH_SLAB_BYTES)
		return -EFBIG;
	if (memory->used + bytes > BH_SLAB_BYTES) {
		memory->slab++;
		memory->used = 0;
	}
	if (memory->slab >= BH_SLABS_MAX)
		return -ENOSPC;
	if (!memory->slabs[memory->slab])
		memory->slabs[memory->slab] = calloc(1, BH_SLAB_BYTES);
	if (!memory->slabs[memory->slab])
		return -ENOMEM;
	*place = (struct place){.slab = memory->slab,
				.offset = memory->used,
				.data = memory->slabs[memory->slab] + memory->used};
	memory->used += (uint32_t)((bytes + 63) & ~63ull);
	return 0;
}

static int rule_compare(const void *a, const void *b)
{
	const struct case_rule *x = a, *y = b;

	return (x->frame > y->frame) - (x->frame < y->frame);
}

static int mapping_compare(const void *a, const void *b)
{
	const struct bh_mapping *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int mappings_make(const struct case_file *file, struct fixture_memory *memory,
			 struct fixture_tables *tables)
{
	struct place place;
	int r = place_take(memory, CASE_MAPPINGS_MAX * sizeof(struct bh_mapping), &place);

	if (r < 0)
		return r;
	struct bh_mapping *mappings = place.data;
	for (unsigned int i = 0; i < file->mapping_count; i++) {
		const struct case_mapping *m = &file->mappings[i];

		mappings[i] = (struct bh_mapping){.start = m->start,
						  .end = m->end,
						  .bias = m->bias,
						  .slot = m->module,
						  .module_id = m->module};
	}
	qsort(mappings, file->mapping_count, sizeof(*mappings), mapping_compare);
	tables->mapping_slab = place.slab;
	tables->mapping_offset = place.offset;
	tables->mapping_count = file->mapping_count;
	return 0;
}

/* Makes the deltas of a page from the rules sorted[first] and following that are in it. */
static int page_make(struct fixture_memory *memory, struct bh_page *page, uint64_t page_number,
		     unsigned int first, unsigned int end)
{
	struct place place;
	int r = place_take(memory, (2 * (end - first) + 1) * sizeof(struct bh_delta), &place);

	if (r < 0)
		return r;
	struct bh_delta *deltas = place.data;
	uint64_t next = page_number << BH_PAGE_BITS; /* up to here there are deltas */
	const uint64_t last = next + PAGE_BYTES;
	uint16_t count = 0;
	for (unsigned int i = first; i < end; i++) {
		const uint64_t offset = memory->sorted[i].frame & BH_FRAME_OFFSET_MASK;

		if (offset < next && i > first)
			continue; /* the same place again */
		if (offset > next)
			deltas[count++] = (struct bh_delta){
			    .low = (uint16_t)(next & (PAGE_BYTES - 1)), .rule = RULE_NOT_RECORDED};
		deltas[count++] = (struct bh_delta){.low = (uint16_t)(offset & (PAGE_BYTES - 1)),
						    .rule = (uint16_t)(RULE_FIRST + i)};
		next = offset + 1;
	}
	if (next < last)
		deltas[count++] = (struct bh_delta){.low = (uint16_t)(next & (PAGE_BYTES - 1)),
						    .rule = RULE_NOT_RECORDED};
	*page =
	    (struct bh_page){.offset = place.offset, .slab = (uint16_t)place.slab, .count = count};
	return 0;
}

/* Sets the range of pages of its file that the mappings of a module contain. */
static void module_pages(const struct case_file *file, uint32_t id, uint64_t *first,
			 uint64_t *count)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (unsigned int i = 0; i < file->mapping_count; i++) {
		const struct case_mapping *m = &file->mappings[i];
		const uint64_t begin = m->start - m->bias, end = m->end - m->bias;

		if (m->module != id || m->end <= m->start)
			continue;
		low = begin < low ? begin : low;
		high = end > high ? end : high;
	}
	*first = low >> BH_PAGE_BITS;
	*count = high > low ? ((high - 1) >> BH_PAGE_BITS) - *first + 1 : 0;
}

static int module_make(const struct case_file *file, struct fixture_memory *memory, uint32_t id,
		       const struct place *nothing)
{
	struct bh_module *module = &memory->modules[id];
	uint64_t first, count;
	struct place place;
	unsigned int rule = 0;

	*module = (struct bh_module){.state = BH_MODULE_FRAME_POINTERS, .id = id};
	module_pages(file, id, &first, &count);
	if (!file->modules[id].has_table || !count)
		return 0;
	if (count > PAGES_MAX || first > UINT32_MAX)
		return -EFBIG;
	int r = place_take(memory, count * sizeof(struct bh_page), &place);
	if (r < 0)
		return r;
	while (rule < file->rule_count && memory->sorted[rule].frame < (uint64_t)id
									   << BH_FRAME_OFFSET_BITS)
		rule++;
	for (uint64_t i = 0; i < count; i++) {
		struct bh_page *page = (struct bh_page *)place.data + i;
		const unsigned int begin = rule;
		const uint64_t end =
		    ((uint64_t)id << BH_FRAME_OFFSET_BITS) + ((first + i + 1) << BH_PAGE_BITS);

		while (rule < file->rule_count && memory->sorted[rule].frame < end)
			rule++;
		*page = (struct bh_page){
		    .offset = nothing->offset, .slab = (uint16_t)nothing->slab, .count = 1};
		if (rule > begin)
			r = page_make(memory, page, first + i, begin, rule);
		if (r < 0)
			return r;
	}
	*module = (struct bh_module){.state = BH_MODULE_READY,
				     .id = id,
				     .page_slab = place.slab,
				     .page_offset = place.offset,
				     .first_page = (uint32_t)first,
				     .page_count = (uint32_t)count};
	return 0;
}

static int memory_fill(const struct case_file *file, struct fixture_tables *tables,
		       struct fixture_memory *memory)
{
	struct place nothing;
	int r = mappings_make(file, memory, tables);

	if (r == 0)
		r = place_take(memory, sizeof(struct bh_delta), &nothing);
	if (r < 0)
		return r;
	*(struct bh_delta *)nothing.data = (struct bh_delta){.rule = RULE_NOT_RECORDED};
	memcpy(memory->sorted, file->rules, sizeof(memory->sorted));
	qsort(memory->sorted, file->rule_count, sizeof(memory->sorted[0]), rule_compare);
	memory->rules[RULE_FRAME_POINTER].kind = BH_RULE_FRAME_POINTER;
	memory->rules[RULE_NOT_RECORDED].kind = BH_RULE_UNKNOWN;
	for (unsigned int i = 0; i < file->rule_count; i++)
		memory->rules[RULE_FIRST + i] = memory->sorted[i].rule;
	memory->modules[0].state = BH_MODULE_FRAME_POINTERS;
	for (uint32_t i = 1; i < file->module_count; i++) {
		r = module_make(file, memory, i, &nothing);
		if (r < 0)
			return r;
	}
	return 0;
}

int fixture_tables_make(const struct case_file *file, struct fixture_tables *tables,
			struct fixture_memory **memory)
{
	struct fixture_memory *made = calloc(1, sizeof(*made));
	int r = made ? memory_fill(file, tables, made) : -ENOMEM;

	if (r < 0) {
		fixture_tables_free(made);
		return r;
	}
	tables->tables = (struct walker_tables){.modules = made->modules, .rules = made->rules};
	for (int i = 0; i < BH_SLABS_MAX; i++)
		tables->tables.slabs[i] = made->slabs[i];
	*memory = made;
	return 0;
}

void fixture_tables_free(struct fixture_memory *memory)
{
	for (int i = 0; memory && i < BH_SLABS_MAX; i++)
		free(memory->slabs[i]);
	free(memory);
}
