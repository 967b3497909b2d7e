/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/tables.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "common/limits.h"
#include "parse/cfi.h"

enum {
	PAGE_BYTES = 1 << BH_PAGE_BITS,
	PAGES_MAX = BH_SLAB_BYTES / sizeof(struct bh_page),
	DELTA_BLOCK_BYTES =
	    128 << 10, /* small enough to fit between others, large enough to be few */
	RULE_CACHE = 256,
	SHORT_GAP_BYTES = 16, /* between functions: no other has room there */
	DWARF_FP = 6,
	DWARF_SP = 7,
};

/* State of one section's parse. */
struct draft_build {
	struct table_draft *draft;
	struct rules *rules;
	const struct elf_image *image;
	const struct elf_segment *segment; /* of the last FDE: the next is mostly in the same */
	size_t covered_count; /* rows of an earlier section, sorted: what they cover is not
				 described again */
	struct {
		struct cfi_rule rule;
		uint16_t number;
		bool used;
	} cache[RULE_CACHE];
	uint8_t held[RULES_MAX / 8];
};

/* glibc's and the kernel's signal trampolines describe the frame by expressions over rsp; the
 * walker reads the ucontext itself. */
static bool rule_is_signal(const struct cfi_rule *rule)
{
	return rule->signal_frame && rule->cfa_kind == CFI_CFA_DEREF &&
	       rule->cfa_register == DWARF_SP;
}

/* Offsets of saved registers are kept in words; what does not fit (256 KiB from the CFA) is given
 * up. */
static bool save_fits(int32_t offset)
{
	return offset % 8 == 0 && offset / 8 >= INT16_MIN && offset / 8 <= INT16_MAX;
}

static uint8_t rule_save_kind(uint8_t kind, bool from_fp, int32_t offset)
{
	if (kind == CFI_SAVE_SAME)
		return BH_FP_SAME;
	if (kind == CFI_SAVE_CFA && save_fits(offset))
		return BH_FP_CFA;
	if (kind == CFI_SAVE_REGISTER && from_fp && save_fits(offset))
		return BH_FP_REGISTER;
	return BH_FP_LOST;
}

static uint8_t rule_kind(const struct cfi_rule *rule)
{
	if (rule->ra_kind == CFI_SAVE_UNDEFINED)
		return BH_RULE_END;
	if (rule_is_signal(rule))
		return BH_RULE_SIGNAL;
	if (rule->ra_kind == CFI_SAVE_IN_REGISTER)
		return rule->cfa_kind == CFI_CFA_REGISTER && rule->cfa_register == DWARF_SP
			   ? BH_RULE_RA_REGISTER
			   : BH_RULE_UNKNOWN;
	if (rule->ra_kind != CFI_SAVE_CFA || rule->ra_offset != -8)
		return BH_RULE_UNKNOWN;
	switch (rule->cfa_kind) {
	case CFI_CFA_REGISTER:
		return rule->cfa_register == DWARF_SP	? BH_RULE_SP
		       : rule->cfa_register == DWARF_FP ? BH_RULE_FP
							: BH_RULE_REGISTER;
	case CFI_CFA_DEREF:
		return BH_RULE_DEREF;
	case CFI_CFA_PLT:
		return BH_RULE_PLT;
	default:
		return BH_RULE_UNKNOWN;
	}
}

/* What the walker does not look at is zero, so that equal rules are one rule. */
static struct bh_rule rule_compile(const struct cfi_rule *rule)
{
	struct bh_rule out = {.kind = rule_kind(rule)};

	if (out.kind == BH_RULE_END || out.kind == BH_RULE_SIGNAL || out.kind == BH_RULE_UNKNOWN)
		return out;
	out.cfa = rule->cfa_offset;
	out.fp_kind = rule_save_kind(rule->fp_kind, rule->fp_register == DWARF_FP, rule->fp_offset);
	if (out.fp_kind == BH_FP_CFA || out.fp_kind == BH_FP_REGISTER)
		out.fp = (int16_t)(rule->fp_offset / 8);
	out.bx_kind = rule_save_kind(rule->bx_kind, false, rule->bx_offset);
	if (out.bx_kind == BH_FP_CFA)
		out.bx = (int16_t)(rule->bx_offset / 8);
	if (out.kind == BH_RULE_REGISTER || out.kind == BH_RULE_DEREF)
		out.reg = rule->cfa_register;
	if (out.kind == BH_RULE_DEREF || out.kind == BH_RULE_PLT)
		out.extra = rule->cfa_add;
	if (out.kind == BH_RULE_RA_REGISTER)
		out.reg = rule->ra_register;
	return out;
}

/* The draft holds one use of each rule it refers to. */
static int draft_hold(struct draft_build *build, uint16_t number)
{
	struct table_draft *draft = build->draft;

	if (!number)
		return 0;
	if (build->held[number / 8] & (1 << number % 8)) {
		rules_put(build->rules, number, 0);
		return 0;
	}
	if (draft->rule_count == draft->rule_capacity) {
		size_t capacity = draft->rule_capacity ? draft->rule_capacity * 2 : 64;
		uint16_t *grown = realloc(draft->rules, capacity * sizeof(*grown));

		if (!grown) {
			rules_put(build->rules, number, 0);
			return -ENOMEM;
		}
		draft->rules = grown;
		draft->rule_capacity = capacity;
	}
	draft->rules[draft->rule_count++] = number;
	build->held[number / 8] |= (uint8_t)(1 << number % 8);
	return 0;
}

static int draft_rule(struct draft_build *build, const struct cfi_rule *rule, uint16_t *number)
{
	uint32_t mix = (uint32_t)rule->cfa_offset * 2654435761u ^
		       (uint32_t)rule->fp_offset * 40503u ^
		       (uint32_t)(rule->cfa_register << 4 | rule->cfa_kind | rule->fp_kind << 9 |
				  (uint32_t)rule->bx_offset << 12) *
			   97u;
	const size_t slot = (mix >> 3 ^ mix >> 17) % RULE_CACHE;

	if (build->cache[slot].used && !memcmp(&build->cache[slot].rule, rule, sizeof(*rule))) {
		*number = build->cache[slot].number;
		return 0;
	}
	const struct bh_rule compiled = rule_compile(rule);
	int r = rules_get(build->rules, &compiled, number);
	if (!r)
		r = draft_hold(build, *number);
	if (r)
		return r;
	build->cache[slot].rule = *rule;
	build->cache[slot].number = *number;
	build->cache[slot].used = true;
	return 0;
}

static int draft_reserve(struct table_draft *draft, size_t more)
{
	if (draft->row_count + more <= draft->row_capacity)
		return 0;
	if (draft->row_count + more > LIMIT_CFI_ROWS)
		return -E2BIG;
	size_t capacity = draft->row_capacity ? draft->row_capacity * 2 : 1024;
	while (capacity < draft->row_count + more)
		capacity *= 2;
	struct table_row *grown = realloc(draft->rows, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	draft->rows = grown;
	draft->row_capacity = capacity;
	return 0;
}

static bool segment_has(const struct elf_segment *s, uint64_t vaddr)
{
	return s->executable && vaddr >= s->vaddr && vaddr - s->vaddr < s->file_size;
}

static const struct elf_segment *find_segment(const struct elf_image *image, uint64_t vaddr)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		if (segment_has(&image->segments[i], vaddr))
			return &image->segments[i];
	}
	return NULL;
}

/* The rule in force at `offset` according to the first `count` rows, sorted. */
static bool rows_cover(const struct table_row *rows, size_t count, uint32_t offset)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rows[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low && !rows[low - 1].is_end;
}

static int draft_on_fde(void *context, const struct cfi_fde *fde)
{
	struct draft_build *build = context;
	struct table_draft *draft = build->draft;

	if (!build->segment || !segment_has(build->segment, fde->start))
		build->segment = find_segment(build->image, fde->start);
	const struct elf_segment *segment = build->segment;
	/* Not code that can be sampled: discarded functions of --gc-sections point to zero. */
	if (!segment || fde->end - segment->vaddr > segment->file_size ||
	    segment->offset + segment->file_size > UINT32_MAX)
		return 0;
	const uint64_t shift = segment->offset - segment->vaddr;
	if (build->covered_count &&
	    rows_cover(draft->rows, build->covered_count, (uint32_t)(fde->start + shift)))
		return 0;
	int r = draft_reserve(draft, fde->row_count + 1u);
	if (r)
		return r;
	for (unsigned int i = 0; i < fde->row_count; i++) {
		uint16_t number;

		r = draft_rule(build, &fde->rules[i], &number);
		if (r)
			return r;
		draft->rows[draft->row_count++] = (struct table_row){
		    .offset = (uint32_t)(fde->starts[i] + shift), .rule = number};
	}
	draft->rows[draft->row_count++] =
	    (struct table_row){.offset = (uint32_t)(fde->end + shift), .is_end = 1};
	return 0;
}

static uint64_t row_key(const struct table_row *row)
{
	return (uint64_t)row->offset << 1 | !row->is_end;
}

static int row_compare(const void *a, const void *b)
{
	const uint64_t x = row_key(a), y = row_key(b);

	return x < y ? -1 : x > y;
}

static bool rows_sorted(const struct table_row *rows, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (row_key(&rows[i - 1]) > row_key(&rows[i]))
			return false;
	}
	return true;
}

/* Rows in order without a gap in which another function would have room. */
struct row_run {
	uint64_t key;
	uint32_t first, count;
};

static int run_compare(const void *a, const void *b)
{
	const struct row_run *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static bool run_ends(const struct table_row *row, const struct table_row *next)
{
	return row_key(row) > row_key(next) ||
	       (row->is_end && next->offset - row->offset >= SHORT_GAP_BYTES);
}

/* The runs of the draft, up to `room` of them; how many there are in all. */
static size_t runs_find(const struct table_draft *draft, struct row_run *runs, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < draft->row_count; i++) {
		if (i && !run_ends(&draft->rows[i - 1], &draft->rows[i])) {
			if (count <= room)
				runs[count - 1].count++;
			continue;
		}
		if (count < room)
			runs[count] = (struct row_run){row_key(&draft->rows[i]), (uint32_t)i, 1};
		count++;
	}
	return count;
}

/* Sort by moving whole runs. false if that is not enough: forged functions overlap, or are too
 * many. */
static bool draft_sort_runs(struct table_draft *draft)
{
	const size_t room = draft->row_count / 4 + 1;
	_cleanup_free_ struct row_run *runs = malloc(room * sizeof(*runs));
	_cleanup_free_ struct table_row *sorted = malloc(draft->row_count * sizeof(*sorted));
	size_t at = 0;

	if (!runs || !sorted)
		return false;
	const size_t count = runs_find(draft, runs, room);
	if (count > room)
		return false;
	qsort(runs, count, sizeof(*runs), run_compare);
	for (size_t i = 0; i < count; i++) {
		memcpy(&sorted[at], &draft->rows[runs[i].first], runs[i].count * sizeof(*sorted));
		at += runs[i].count;
	}
	if (!rows_sorted(sorted, at))
		return false;
	free(draft->rows);
	draft->rows = TAKE_PTR(sorted);
	draft->row_capacity = draft->row_count;
	return true;
}

/* A linker writes the FDEs of one object after those of another, but the functions of all by
 * section. */
static void draft_sort(struct table_draft *draft)
{
	if (!rows_sorted(draft->rows, draft->row_count) && !draft_sort_runs(draft))
		qsort(draft->rows, draft->row_count, sizeof(draft->rows[0]), row_compare);
}

static int draft_parse(struct draft_build *build, const struct cfi_section *section)
{
	const struct cfi_budget budget = {
	    .fdes = LIMIT_CFI_ROWS, .rows = LIMIT_CFI_ROWS, .instructions = LIMIT_CFI_INSTRUCTIONS};
	struct cfi_stats stats = {0};
	int r = cfi_parse(section, &budget, draft_on_fde, build, &stats);

	build->draft->bad_fdes += stats.bad_fdes;
	/* What was found before the budget ran out is worth having. */
	if (r == -E2BIG)
		r = 0;
	if (!r)
		draft_sort(build->draft);
	return r;
}

static uint64_t section_vaddr(const struct elf_image *image, const char *name)
{
	const struct elf_section *section = elf_image_find_section(image, name);

	return section ? section->vaddr : 0;
}

/* .eh_frame of a file without section headers: the pointer at the begin of .eh_frame_hdr
 * (LSB 5.0, 10.6.2) says where it starts; it ends with its terminator, or its segment. */
static int find_eh_frame_by_header(const struct elf_image *image, uint64_t *vaddr, uint64_t *size)
{
	enum {
		PCREL_SDATA4 = 0x1b
	};
	_cleanup_free_ uint8_t *data = NULL;
	size_t length;

	if (!image->eh_frame_hdr_vaddr)
		return -ENODATA;
	int r = elf_image_read_vaddr(image, image->eh_frame_hdr_vaddr, 8, 8, &data, &length);
	if (r < 0)
		return r;
	struct cursor c = cursor_init(data, length);
	uint8_t version = cursor_u8(&c), encoding = cursor_u8(&c);
	cursor_skip(&c, 2);
	int32_t pointer = (int32_t)cursor_u32(&c);
	if (c.failed || version != 1 || encoding != PCREL_SDATA4)
		return -ENODATA;
	*vaddr = image->eh_frame_hdr_vaddr + 4 + (uint64_t)(int64_t)pointer;
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *s = &image->segments[i];

		if (*vaddr >= s->vaddr && *vaddr - s->vaddr < s->file_size) {
			*size = s->file_size - (*vaddr - s->vaddr);
			return 0;
		}
	}
	return -ENODATA;
}

static int draft_eh_frame(struct draft_build *build)
{
	const struct elf_image *image = build->image;
	const struct elf_section *section = elf_image_find_section(image, ".eh_frame");
	_cleanup_free_ uint8_t *data = NULL;
	struct cfi_section cfi = {
	    .text_vaddr = section_vaddr(image, ".text"),
	    .data_vaddr = section_vaddr(image, ".got"),
	};
	uint64_t size;
	int r;

	if (section && section->type != SHT_NOBITS) {
		cfi.vaddr = section->vaddr;
		r = elf_image_read_section(image, section, LIMIT_CFI_BYTES, &data, &cfi.length);
	} else {
		r = find_eh_frame_by_header(image, &cfi.vaddr, &size);
		if (!r)
			r = elf_image_read_vaddr(image, cfi.vaddr, size, LIMIT_CFI_BYTES, &data,
						 &cfi.length);
	}
	if (r < 0)
		return r == -ENOMEM ? r : -ENODATA;
	cfi.data = data;
	return draft_parse(build, &cfi);
}

static int draft_debug_frame(struct draft_build *build)
{
	const struct elf_section *section = elf_image_find_section(build->image, ".debug_frame");
	_cleanup_free_ uint8_t *data = NULL;
	struct cfi_section cfi = {.debug_frame = true};

	if (!section)
		return -ENODATA;
	int r = elf_image_read_section(build->image, section, LIMIT_CFI_BYTES, &data, &cfi.length);
	if (r < 0)
		return r == -ENOMEM ? r : -ENODATA;
	cfi.data = data;
	build->covered_count = build->draft->row_count;
	build->segment = NULL;
	return draft_parse(build, &cfi);
}

static int draft_from_image(struct table_draft *draft, struct rules *rules,
			    const struct elf_image *image)
{
	_cleanup_free_ struct draft_build *build = calloc(1, sizeof(*build));

	if (!build)
		return -ENOMEM;
	build->draft = draft;
	build->rules = rules;
	build->image = image;
	int r = draft_eh_frame(build);
	if (r < 0 && r != -ENODATA)
		return r;
	r = draft_debug_frame(build);
	if (r < 0 && r != -ENODATA)
		return r;
	return draft->row_count ? 0 : -ENODATA;
}

int table_draft(struct table_draft *draft, struct rules *rules, const struct elf_source *source)
{
	struct elf_image image;

	*draft = (struct table_draft){0};
	int r = elf_image_init(&image, source);
	if (r < 0)
		return r;
	r = image.machine == EM_X86_64 ? draft_from_image(draft, rules, &image) : -ENODATA;
	elf_image_fini(&image);
	if (r < 0)
		table_draft_fini(draft, rules, 0);
	return r;
}

void table_draft_fini(struct table_draft *draft, struct rules *rules, uint64_t now_ns)
{
	for (size_t i = 0; i < draft->rule_count; i++)
		rules_put(rules, draft->rules[i], now_ns);
	free(draft->rules);
	free(draft->rows);
	*draft = (struct table_draft){0};
}

/* Rows walked page by page, into deltas. */
struct placement {
	const struct table_draft *draft;
	struct slabs *slabs;
	struct table *table;
	struct bh_page *pages;
	size_t next_row;
	uint16_t rule;		 /* in force */
	struct slab_block block; /* of deltas, being filled */
	uint32_t block_used;
	struct bh_page shared; /* the last page with one delta only, and its rule */
	uint16_t shared_rule;
};

/*
 * A hole between two functions is part of the one before it: alignment is never run, and what else
 * is that small is code whose description ends too early on purpose, such as glibc's clone and
 * clone3, from their system call to their return (the child would be described wrongly).
 */
static bool row_is_filled(const struct table_draft *draft, size_t i)
{
	const struct table_row *row = &draft->rows[i];

	return row->is_end && i + 1 < draft->row_count &&
	       row[1].offset - row->offset < SHORT_GAP_BYTES;
}

/* The deltas of the next page, in `deltas`, and how many they are. */
static unsigned int place_collect(struct placement *p, uint32_t page, struct bh_delta *deltas)
{
	const uint64_t base = (uint64_t)page << BH_PAGE_BITS;
	const struct table_row *rows = p->draft->rows;
	unsigned int count = 0;

	deltas[count++] = (struct bh_delta){0, p->rule};
	while (p->next_row < p->draft->row_count && rows[p->next_row].offset < base + PAGE_BYTES) {
		const struct table_row *row = &rows[p->next_row++];
		const uint16_t low = (uint16_t)(row->offset - base);

		if (row_is_filled(p->draft, p->next_row - 1))
			continue;
		p->rule = row->rule;
		if (deltas[count - 1].low == low) {
			/* The last word on an address counts; it may turn out to be no change. */
			deltas[count - 1].rule = row->rule;
			if (count > 1 && deltas[count - 2].rule == row->rule)
				count--;
		} else if (deltas[count - 1].rule != row->rule) {
			deltas[count++] = (struct bh_delta){low, row->rule};
		}
	}
	return count;
}

static int place_block(struct placement *p, size_t rows_left)
{
	struct table *table = p->table;
	size_t bytes = (rows_left + 1) * sizeof(struct bh_delta) * 2;

	if (bytes < PAGE_BYTES * sizeof(struct bh_delta))
		bytes = PAGE_BYTES * sizeof(struct bh_delta);
	if (bytes > DELTA_BLOCK_BYTES)
		bytes = DELTA_BLOCK_BYTES;
	struct slab_block *grown =
	    realloc(table->deltas, (table->delta_block_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	table->deltas = grown;
	int r = slabs_alloc(p->slabs, bytes, &p->block);
	if (r < 0)
		return r;
	table->deltas[table->delta_block_count++] = p->block;
	p->block_used = 0;
	return 0;
}

static int place_page(struct placement *p, uint32_t index)
{
	struct bh_delta deltas[PAGE_BYTES + 1];
	unsigned int count = place_collect(p, p->table->first_page + index, deltas);
	const uint32_t bytes = count * (uint32_t)sizeof(deltas[0]);

	if (count == 1 && p->shared.count && p->shared_rule == deltas[0].rule) {
		p->pages[index] = p->shared;
		return 0;
	}
	if (p->block_used + bytes > p->block.bytes) {
		int r = place_block(p, p->draft->row_count - p->next_row + count);

		if (r < 0)
			return r;
	}
	memcpy((uint8_t *)slabs_at(p->slabs, &p->block) + p->block_used, deltas, bytes);
	p->pages[index] = (struct bh_page){.offset = p->block.offset + p->block_used,
					   .slab = (uint16_t)p->block.slab,
					   .count = (uint16_t)count};
	p->block_used += bytes;
	if (count == 1) {
		p->shared = p->pages[index];
		p->shared_rule = deltas[0].rule;
	}
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
	const struct table_row *rows = draft->rows;
	struct table placed = {.first_page = rows[0].offset >> BH_PAGE_BITS};
	struct placement p = {.draft = draft, .slabs = slabs, .table = &placed};

	placed.page_count =
	    (rows[draft->row_count - 1].offset >> BH_PAGE_BITS) - placed.first_page + 1;
	if (placed.page_count > PAGES_MAX)
		return -EFBIG;
	int r = slabs_alloc(slabs, placed.page_count * sizeof(struct bh_page), &placed.pages);
	if (r < 0)
		return r;
	p.pages = slabs_at(slabs, &placed.pages);
	for (uint32_t i = 0; i < placed.page_count && !r; i++)
		r = place_page(&p, i);
	if (r < 0) {
		/* Nobody has seen them. */
		table_free_blocks(&placed, slabs, slabs_release);
		return r;
	}
	if (placed.delta_block_count)
		slabs_shrink(slabs, &placed.deltas[placed.delta_block_count - 1], p.block_used);
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
