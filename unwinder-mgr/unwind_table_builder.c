/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see unwind_table_builder.h. */
#include "unwinder-mgr/unwind_table_builder.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/cfi.h"
#include "unwinder-mgr/context_start.h"
#include "unwinder-mgr/go_code.h"
#include "unwinder-mgr/limits.h"
#include "unwinder-mgr/rule_compile.h"
#include "unwinder-mgr/uncovered_code.h"

enum {
	/* Sizes of the first allocations, in items. They double from there. */
	RULES_FIRST = 64,
	ROWS_FIRST = 1024,
	RANGES_FIRST = 64,
};

/* The state of building one file's rows, section after section. */
struct build {
	struct unwind_table_builder *builder;
	struct rules *rules;
	uint32_t rules_left; /* that may still be added */
	const struct elf_image *image;
	/* The segment of the last FDE: the next FDE is mostly in the same one. */
	const struct elf_segment *segment;
	uint64_t shift; /* from the segment's virtual addresses to file offsets */
	uint64_t context_starts[CONTEXT_STARTS_MAX];
	size_t context_start_count;
	/* The first ranges, which earlier sections made. They are sorted, and what they cover is
	 * not described again. */
	size_t covered_count;
	uint32_t last; /* file offset of the last row */
	uint8_t held[RULES_MAX / 8];
};

/* ---- Rules ---- */

/* Keeps one use of each rule that the rows refer to, and gives back any further use. */
static int build_hold_rule(struct build *build, uint16_t rule)
{
	struct unwind_table_builder *builder = build->builder;

	if (rule < BH_RULE_IDS_FIXED)
		return 0;
	if (build->held[rule / 8] & (1 << rule % 8)) {
		rules_put(build->rules, rule, 0);
		return 0;
	}
	int r = ARRAY_RESERVE(builder->rules, builder->rule_capacity, builder->rule_count + 1,
			      RULES_FIRST, ARRAY_UNLIMITED);
	if (r < 0) {
		rules_put(build->rules, rule, 0);
		return r;
	}
	builder->rules[builder->rule_count++] = rule;
	build->held[rule / 8] |= (uint8_t)(1 << rule % 8);
	return 0;
}

static int build_on_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct build *build = context;
	const struct bh_rule compiled = rule_compile(rule);
	uint16_t shared;

	int r = rules_get(build->rules, &compiled, &build->rules_left, &shared);
	if (r == -ENOSPC) {
		build->builder->rules_missing++;
		*id = BH_RULE_ID_REFUSED;
		return 0;
	}
	if (!r)
		r = build_hold_rule(build, shared);
	if (!r)
		*id = shared;
	return r;
}

/* ---- Rows ---- */

static int build_reserve_rows(struct unwind_table_builder *builder, size_t more)
{
	return ARRAY_RESERVE(builder->rows, builder->row_capacity, builder->row_count + more,
			     ROWS_FIRST, LIMIT_CFI_ROWS);
}

/* Starts a new range at `start`. */
static int build_open_range(struct build *build, uint32_t start)
{
	struct unwind_ranges *ranges = &build->builder->ranges;

	int r = ARRAY_RESERVE(ranges->items, ranges->capacity, ranges->count + 1, RANGES_FIRST,
			      ARRAY_UNLIMITED);
	if (r < 0)
		return r;
	ranges->items[ranges->count++] =
	    (struct unwind_range){start, start, (uint32_t)build->builder->row_count, 0};
	build->last = start;
	return 0;
}

/* Returns the range that is being written, or NULL at the start of a section. */
static struct unwind_range *build_current_range(const struct build *build)
{
	const struct unwind_ranges *ranges = &build->builder->ranges;

	return ranges->count > build->covered_count ? &ranges->items[ranges->count - 1] : NULL;
}

/* Starts a function. It continues the current range if it directly follows that range's end. */
static int build_start_function(struct build *build, uint32_t start)
{
	const struct unwind_range *range = build_current_range(build);

	if (range && start >= range->end && start - range->end < UNWIND_GAP_BYTES)
		return 0;
	return build_open_range(build, start);
}

/* Ends the current range at `end`. The next function may still extend it. */
static void build_close_range(struct build *build, uint32_t end)
{
	struct unwind_range *range = build_current_range(build);

	range->end = end;
	range->row_count = (uint32_t)build->builder->row_count - range->first_row;
}

/* Appends the rows of a function that starts at `start`, which is not before the last row. The
 * caller has reserved the memory. A distance that does not fit into a row starts a new range. */
static int build_append_rows(struct build *build, uint32_t start, const struct cfi_row *from,
			     size_t count)
{
	struct unwind_table_builder *builder = build->builder;
	struct unwind_row *row = &builder->rows[builder->row_count];
	uint32_t last = build->last;

	for (size_t i = 0; i < count; i++) {
		const uint32_t offset = start + from[i].at;

		if (__builtin_expect(offset - last > UINT16_MAX, 0)) {
			builder->row_count = (size_t)(row - builder->rows);
			build_close_range(build, offset);
			int r = build_open_range(build, offset);
			if (r < 0)
				return r;
			last = offset;
		}
		*row++ = (struct unwind_row){(uint16_t)(offset - last), (uint16_t)from[i].rule};
		last = offset;
	}
	builder->row_count = (size_t)(row - builder->rows);
	build->last = last;
	return 0;
}

/* Returns whether one of the first `count` ranges, which are sorted, covers `offset`. */
static bool ranges_cover(const struct unwind_range *ranges, size_t count, uint32_t offset)
{
	const size_t at = unwind_ranges_find(ranges, count, offset);

	return at < count && ranges[at].start <= offset;
}

/* Decides whether a function is wanted. It is not if its bytes are not in the file (the linker's
 * --gc-sections leaves descriptions of discarded functions, at address zero), or if an earlier
 * section has described it. */
static bool build_on_want(void *context, uint64_t start, uint64_t end)
{
	struct build *build = context;

	if (!build->segment || !elf_segment_has_code(build->segment, start))
		build->segment = elf_image_find_code(build->image, start);
	const struct elf_segment *segment = build->segment;
	if (!segment || end - segment->vaddr > segment->file_size ||
	    segment->offset + segment->file_size > UINT32_MAX)
		return false;
	build->shift = segment->offset - segment->vaddr;
	return !ranges_cover(build->builder->ranges.items, build->covered_count,
			     (uint32_t)(start + build->shift));
}

/* Returns whether makecontext(3) starts stacks by the function at this virtual address. */
static bool build_begins_stacks(const struct build *build, uint64_t start)
{
	for (size_t i = 0; i < build->context_start_count; i++) {
		if (build->context_starts[i] == start)
			return true;
	}
	return false;
}

/* Adds a row for the byte before `start`, if no other function has it: nothing has called from
 * there. The caller has reserved the memory. */
static int build_end_before(struct build *build, uint32_t start)
{
	static const struct cfi_rule rule = {.ra_kind = CFI_SAVE_UNDEFINED};
	const struct unwind_range *range = build_current_range(build);
	struct cfi_row row = {0};

	if (!start || (range && start <= range->end))
		return 0;
	int r = build_on_rule(build, &rule, &row.rule);
	if (!r)
		r = build_start_function(build, start - 1);
	if (!r)
		r = build_append_rows(build, start - 1, &row, 1);
	if (!r)
		build_close_range(build, start);
	return r;
}

static int build_on_fde(void *context, const struct cfi_fde *fde)
{
	struct build *build = context;
	const uint32_t start = (uint32_t)(fde->start + build->shift);

	int r = build_reserve_rows(build->builder, fde->row_count + 1);
	if (!r && build_begins_stacks(build, fde->start))
		r = build_end_before(build, start);
	if (!r)
		r = build_start_function(build, start);
	if (!r)
		r = build_append_rows(build, start, fde->rows, fde->row_count);
	if (!r)
		build_close_range(build, (uint32_t)(fde->end + build->shift));
	return r;
}

/* ---- Order ---- */

static int range_compare(const void *a, const void *b)
{
	const struct unwind_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Returns whether the ranges are ascending and do not overlap. */
static bool ranges_are_in_order(const struct unwind_ranges *ranges)
{
	for (size_t i = 1; i < ranges->count; i++) {
		if (ranges->items[i].start < ranges->items[i - 1].end)
			return false;
	}
	return true;
}

/* A row, or the end of a range, with its own offset: what overlapping ranges are taken apart
 * into. */
struct loose_row {
	uint32_t offset;
	uint16_t rule;
	uint16_t starts; /* 0 for an end, which sorts before the start of a function there */
};

static int loose_compare(const void *a, const void *b)
{
	const struct loose_row *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->starts - y->starts;
}

static size_t builder_split_rows(const struct unwind_table_builder *builder,
				 struct loose_row *loose)
{
	size_t count = 0;

	for (size_t i = 0; i < builder->ranges.count; i++) {
		const struct unwind_range *range = &builder->ranges.items[i];
		const struct unwind_row *rows = &builder->rows[range->first_row];
		uint32_t offset = range->start;

		for (uint32_t j = 0; j < range->row_count; j++) {
			offset += rows[j].advance;
			loose[count++] = (struct loose_row){offset, rows[j].rule, 1};
		}
		loose[count++] = (struct loose_row){range->end, 0, 0};
	}
	return count;
}

/* Writes sorted rows again, as ranges in order. Of several rows at one offset the last one
 * counts. */
static int build_join_rows(struct build *build, const struct loose_row *loose, size_t count)
{
	struct unwind_table_builder *builder = build->builder;
	bool open = false; /* there was no end since the last start */
	int r = 0;

	builder->row_count = builder->ranges.count = build->covered_count = 0;
	for (size_t i = 0; i < count && !r; i++) {
		const uint32_t offset = loose[i].offset;
		const struct unwind_range *range = build_current_range(build);

		if (!loose[i].starts) {
			if (open || offset - range->end < UNWIND_GAP_BYTES)
				build_close_range(build, offset);
			open = false;
		} else if (open && offset == build->last) {
			builder->rows[builder->row_count - 1].rule = loose[i].rule;
		} else {
			if (!open)
				r = build_start_function(build, offset);
			if (!r)
				r = build_append_rows(build, offset,
						      &(const struct cfi_row){0, loose[i].rule}, 1);
			open = true;
		}
	}
	return r;
}

/* Resolves functions that overlap, because they are forged or because a linker folded equal ones.
 * Each row then applies until the next row or the next end, of whichever function. */
static int build_resolve_overlaps(struct build *build)
{
	const struct unwind_table_builder *builder = build->builder;
	_cleanup_free_ struct loose_row *loose =
	    malloc((builder->row_count + builder->ranges.count) * sizeof(*loose));

	if (!loose)
		return -ENOMEM;
	const size_t count = builder_split_rows(builder, loose);
	qsort(loose, count, sizeof(*loose), loose_compare);
	return build_join_rows(build, loose, count);
}

/* Puts the ranges in ascending order. A linker writes the descriptions of one object file after
 * those of another, but sorts the functions of all of them by section. */
static int build_sort(struct build *build)
{
	struct unwind_ranges *ranges = &build->builder->ranges;

	if (ranges_are_in_order(ranges))
		return 0;
	qsort(ranges->items, ranges->count, sizeof(ranges->items[0]), range_compare);
	return ranges_are_in_order(ranges) ? 0 : build_resolve_overlaps(build);
}

/* ---- Sections ---- */

/* Prepares for the next section: everything up to now is covered. */
static struct cfi_sink build_next_sink(struct build *build)
{
	build->segment = NULL;
	build->covered_count = build->builder->ranges.count;
	return (struct cfi_sink){
	    .context = build, .want = build_on_want, .rule = build_on_rule, .fde = build_on_fde};
}

static int build_parse(struct build *build, const struct cfi_section *section)
{
	const struct cfi_budget budget = {
	    .fdes = LIMIT_CFI_ROWS, .rows = LIMIT_CFI_ROWS, .instructions = LIMIT_CFI_INSTRUCTIONS};
	const struct cfi_sink sink = build_next_sink(build);
	struct cfi_stats stats;

	int r = cfi_parse(section, &budget, &sink, &stats);
	build->builder->bad_fdes += stats.bad_fdes;
	/* The rows found before a budget ran out (-E2BIG) are kept. */
	return r && r != -E2BIG ? r : build_sort(build);
}

/* Finds .eh_frame in a file without section headers: the pointer at the start of .eh_frame_hdr
 * (LSB Core 5.0, 10.6.2) holds its address. It ends at its terminator or with its segment. */
static int find_eh_frame_by_header(const struct elf_image *image, uint64_t *vaddr,
				   struct elf_window *window)
{
	enum {
		PCREL_SDATA4 = 0x1b /* DW_EH_PE_pcrel | DW_EH_PE_sdata4, as every linker writes */
	};
	_cleanup_free_ uint8_t *data = NULL;
	size_t length;

	if (!image->eh_frame_hdr_vaddr)
		return -ENODATA;
	int r = elf_image_read_vaddr(image, image->eh_frame_hdr_vaddr, 8, 8, &data, &length);
	if (r < 0)
		return r;
	struct cursor c = cursor_init(data, length);
	const uint8_t version = cursor_u8(&c), encoding = cursor_u8(&c);
	cursor_skip(&c, 2);
	const int32_t pointer = (int32_t)cursor_u32(&c);
	if (c.failed || version != 1 || encoding != PCREL_SDATA4)
		return -ENODATA;
	*vaddr = image->eh_frame_hdr_vaddr + 4 + (uint64_t)(int64_t)pointer;
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *s = &image->segments[i];
		const uint64_t at = *vaddr - s->vaddr;

		if (*vaddr < s->vaddr || at >= s->file_size)
			continue;
		if (s->file_size - at > LIMIT_CFI_BYTES)
			return -ENODATA;
		elf_window_init(window, &image->source, s->offset + at, s->file_size - at);
		return 0;
	}
	return -ENODATA;
}

static int build_from_eh_frame(struct build *build)
{
	const struct elf_image *image = build->image;
	const struct elf_section *section = elf_image_find_section(image, ".eh_frame");
	_cleanup_(elf_window_fini) struct elf_window window = {0};
	struct cfi_section cfi = {
	    .window = &window,
	    .text_vaddr = elf_image_section_vaddr(image, ".text"),
	    .data_vaddr = elf_image_section_vaddr(image, ".got"),
	};
	int r;

	if (section && section->type != SHT_NOBITS) {
		cfi.vaddr = section->vaddr;
		r = elf_window_init_section(&window, image, section, LIMIT_CFI_BYTES);
	} else {
		r = find_eh_frame_by_header(image, &cfi.vaddr, &window);
	}
	if (r < 0)
		return r == -ENOMEM ? r : -ENODATA;
	return build_parse(build, &cfi);
}

static int build_from_debug_frame(struct build *build)
{
	const struct elf_section *section = elf_image_find_section(build->image, ".debug_frame");
	_cleanup_(elf_window_fini) struct elf_window window = {0};
	const struct cfi_section cfi = {.window = &window, .debug_frame = true};

	if (!section)
		return -ENODATA;
	int r = elf_window_init_section(&window, build->image, section, LIMIT_CFI_BYTES);
	if (r < 0)
		return r == -ENOMEM ? r : -ENODATA;
	return build_parse(build, &cfi);
}

/* Adds the functions of a Go program. */
static int build_from_go(struct build *build)
{
	const struct cfi_sink sink = build_next_sink(build);
	const int r = go_code_read(build->image, &sink);

	if (r == -ENOENT)
		return -ENODATA;
	return r && r != -E2BIG ? r : build_sort(build);
}

/* Adds the functions that nothing of the above describes. */
static int build_from_code(struct build *build)
{
	const struct cfi_sink sink = build_next_sink(build);
	int r = uncovered_code_read(build->image, &build->builder->ranges, &sink);

	return r && r != -E2BIG ? r : build_sort(build);
}

static int build_from_image(struct unwind_table_builder *builder, struct rules *rules,
			    uint32_t rules_most, const struct elf_image *image)
{
	_cleanup_free_ struct build *build = calloc(1, sizeof(*build));

	if (!build)
		return -ENOMEM;
	build->builder = builder;
	build->rules = rules;
	build->rules_left = rules_most;
	build->image = image;
	int r = context_start_find(image, build->context_starts, &build->context_start_count);
	if (!r)
		r = build_from_eh_frame(build);
	if (r < 0 && r != -ENODATA)
		return r;
	/* Go's .debug_frame is wrong where the runtime switches stacks. */
	r = build_from_go(build);
	if (r < 0 && r != -ENODATA)
		return r;
	r = build_from_debug_frame(build);
	if (r < 0 && r != -ENODATA)
		return r;
	r = build_from_code(build);
	if (r < 0)
		return r;
	builder->rules_added = rules_most - build->rules_left;
	return builder->row_count ? 0 : -ENODATA;
}

int unwind_table_build(struct unwind_table_builder *builder, struct rules *rules,
		       uint32_t rules_most, const struct elf_source *source)
{
	struct elf_image image;

	*builder = (struct unwind_table_builder){0};
	int r = elf_image_init(&image, source);
	if (r < 0)
		return r == -ENOEXEC && elf_image_is_32_bit(source) ? -ENOTSUP : r;
	r = image.machine == EM_X86_64 ? build_from_image(builder, rules, rules_most, &image)
				       : -ENODATA;
	elf_image_fini(&image);
	if (r < 0)
		unwind_table_builder_fini(builder, rules, 0);
	return r;
}

void unwind_table_builder_fini(struct unwind_table_builder *builder, struct rules *rules,
			       uint64_t now_ns)
{
	for (size_t i = 0; i < builder->rule_count; i++)
		rules_put(rules, builder->rules[i], now_ns);
	free(builder->rules);
	free(builder->ranges.items);
	free(builder->rows);
	*builder = (struct unwind_table_builder){0};
}
