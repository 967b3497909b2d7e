/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/table_draft.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "common/limits.h"
#include "parse/cfi.h"
#include "unwinder-mgr/code_holes.h"
#include "unwinder-mgr/rule_compile.h"

/* State of one file's sections, one after the other. */
struct draft_build {
	struct table_draft *draft;
	struct rules *rules;
	const struct elf_image *image;
	const struct elf_segment *segment; /* of the last FDE: the next is mostly in the same */
	uint64_t shift;			   /* from its virtual addresses to file offsets */
	size_t covered_count; /* runs of an earlier section, sorted: what they cover is not
				 described again */
	uint32_t last;	      /* offset of the last row */
	uint8_t held[RULES_MAX / 8];
};

/* ---- Rules ---- */

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

static int draft_on_rule(void *context, const struct cfi_rule *rule, uint32_t *number)
{
	struct draft_build *build = context;
	const struct bh_rule compiled = rule_compile(rule);
	uint16_t shared;

	int r = rules_get(build->rules, &compiled, &shared);
	if (!r)
		r = draft_hold(build, shared);
	if (!r)
		*number = shared;
	return r;
}

/* ---- Rows ---- */

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

/* A new run, from `start` on. */
static int draft_open(struct draft_build *build, uint32_t start)
{
	struct table_draft *draft = build->draft;

	if (draft->run_count == draft->run_capacity) {
		size_t capacity = draft->run_capacity ? draft->run_capacity * 2 : 64;
		struct table_run *grown = realloc(draft->runs, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		draft->runs = grown;
		draft->run_capacity = capacity;
	}
	draft->runs[draft->run_count++] =
	    (struct table_run){start, start, (uint32_t)draft->row_count, 0};
	build->last = start;
	return 0;
}

/* The run that is being written; NULL at the begin of a section. */
static struct table_run *draft_run(const struct draft_build *build)
{
	const struct table_draft *draft = build->draft;

	return draft->run_count > build->covered_count ? &draft->runs[draft->run_count - 1] : NULL;
}

/* A function begins: in the same run as the one before it, if it is the next. */
static int draft_begin(struct draft_build *build, uint32_t start)
{
	const struct table_run *run = draft_run(build);

	if (run && start >= run->end && start - run->end < TABLE_HOLE_BYTES)
		return 0;
	return draft_open(build, start);
}

/* The run ends at `end` for now: another function may follow. */
static void draft_close(struct draft_build *build, uint32_t end)
{
	struct table_run *run = draft_run(build);

	run->end = end;
	run->row_count = (uint32_t)build->draft->row_count - run->first_row;
}

/* Rows of a function that begins at `start`, not before the last row. There is room. */
static int draft_put(struct draft_build *build, uint32_t start, const struct cfi_row *from,
		     size_t count)
{
	struct table_draft *draft = build->draft;
	struct table_row *row = &draft->rows[draft->row_count];
	uint32_t last = build->last;

	for (size_t i = 0; i < count; i++) {
		const uint32_t offset = start + from[i].at;

		if (__builtin_expect(offset - last > UINT16_MAX, 0)) {
			draft->row_count = (size_t)(row - draft->rows);
			draft_close(build, offset);
			int r = draft_open(build, offset);
			if (r < 0)
				return r;
			last = offset;
		}
		*row++ = (struct table_row){(uint16_t)(offset - last), (uint16_t)from[i].rule};
		last = offset;
	}
	draft->row_count = (size_t)(row - draft->rows);
	build->last = last;
	return 0;
}

size_t table_runs_find(const struct table_run *runs, size_t count, uint64_t offset)
{
	size_t low = 0, high = count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (runs[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether one of the first `count` runs, sorted, covers `offset`. */
static bool runs_cover(const struct table_run *runs, size_t count, uint32_t offset)
{
	const size_t at = table_runs_find(runs, count, offset);

	return at < count && runs[at].start <= offset;
}

/* Not code that can be sampled: discarded functions of --gc-sections point to zero. Nor what is
 * described already. */
static bool draft_on_want(void *context, uint64_t start, uint64_t end)
{
	struct draft_build *build = context;
	const struct table_draft *draft = build->draft;

	if (!build->segment || !elf_segment_has_code(build->segment, start))
		build->segment = elf_image_find_code(build->image, start);
	const struct elf_segment *segment = build->segment;
	if (!segment || end - segment->vaddr > segment->file_size ||
	    segment->offset + segment->file_size > UINT32_MAX)
		return false;
	build->shift = segment->offset - segment->vaddr;
	return !runs_cover(draft->runs, build->covered_count, (uint32_t)(start + build->shift));
}

static int draft_on_fde(void *context, const struct cfi_fde *fde)
{
	struct draft_build *build = context;
	const uint32_t start = (uint32_t)(fde->start + build->shift);

	int r = draft_reserve(build->draft, fde->row_count);
	if (!r)
		r = draft_begin(build, start);
	if (!r)
		r = draft_put(build, start, fde->rows, fde->row_count);
	if (!r)
		draft_close(build, (uint32_t)(fde->end + build->shift));
	return r;
}

/* ---- Order ---- */

static int run_compare(const void *a, const void *b)
{
	const struct table_run *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Ascending, and none over another? */
static bool runs_are_in_order(const struct table_run *runs, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (runs[i].start < runs[i - 1].end)
			return false;
	}
	return true;
}

/* A row for itself, or the end of a run. */
struct loose_row {
	uint32_t offset;
	uint16_t rule;
	uint16_t begins; /* ends sort before the begin of another function at the same place */
};

static int loose_compare(const void *a, const void *b)
{
	const struct loose_row *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->begins - y->begins;
}

static size_t draft_loosen(const struct table_draft *draft, struct loose_row *loose)
{
	size_t count = 0;

	for (size_t i = 0; i < draft->run_count; i++) {
		const struct table_run *run = &draft->runs[i];
		const struct table_row *rows = &draft->rows[run->first_row];
		uint32_t offset = run->start;

		for (uint32_t j = 0; j < run->row_count; j++) {
			offset += rows[j].advance;
			loose[count++] = (struct loose_row){offset, rows[j].rule, 1};
		}
		loose[count++] = (struct loose_row){run->end, 0, 0};
	}
	return count;
}

/* Write sorted rows anew, as runs in order. The last word on an address counts. */
static int draft_rewrite(struct draft_build *build, const struct loose_row *loose, size_t count)
{
	struct table_draft *draft = build->draft;
	bool open = false; /* no end since the last begin */
	int r = 0;

	draft->row_count = draft->run_count = build->covered_count = 0;
	for (size_t i = 0; i < count && !r; i++) {
		const uint32_t offset = loose[i].offset;
		struct table_run *run = draft_run(build);

		if (!loose[i].begins) {
			if (open || offset - run->end < TABLE_HOLE_BYTES)
				draft_close(build, offset);
			open = false;
		} else if (open && offset == build->last) {
			draft->rows[draft->row_count - 1].rule = loose[i].rule;
		} else {
			if (!open)
				r = draft_begin(build, offset);
			if (!r)
				r = draft_put(build, offset,
					      &(const struct cfi_row){0, loose[i].rule}, 1);
			open = true;
		}
	}
	return r;
}

/* Functions over each other: forged, or folded by a linker. Each row counts until the next one or
 * the next end, whose ever it is. */
static int draft_untangle(struct draft_build *build)
{
	const struct table_draft *draft = build->draft;
	_cleanup_free_ struct loose_row *loose =
	    malloc((draft->row_count + draft->run_count) * sizeof(*loose));

	if (!loose)
		return -ENOMEM;
	const size_t count = draft_loosen(draft, loose);
	qsort(loose, count, sizeof(*loose), loose_compare);
	return draft_rewrite(build, loose, count);
}

/* A linker writes the FDEs of one object after those of another, but the functions of all by
 * section. */
static int draft_sort(struct draft_build *build)
{
	struct table_draft *draft = build->draft;

	if (runs_are_in_order(draft->runs, draft->run_count))
		return 0;
	qsort(draft->runs, draft->run_count, sizeof(draft->runs[0]), run_compare);
	return runs_are_in_order(draft->runs, draft->run_count) ? 0 : draft_untangle(build);
}

/* ---- Sections ---- */

/* Before each section. */
static struct cfi_sink draft_sink(struct draft_build *build)
{
	build->segment = NULL;
	build->covered_count = build->draft->run_count;
	return (struct cfi_sink){
	    .context = build, .want = draft_on_want, .rule = draft_on_rule, .fde = draft_on_fde};
}

static int draft_parse(struct draft_build *build, const struct cfi_section *section)
{
	const struct cfi_budget budget = {
	    .fdes = LIMIT_CFI_ROWS, .rows = LIMIT_CFI_ROWS, .instructions = LIMIT_CFI_INSTRUCTIONS};
	const struct cfi_sink sink = draft_sink(build);
	struct cfi_stats stats;

	int r = cfi_parse(section, &budget, &sink, &stats);
	build->draft->bad_fdes += stats.bad_fdes;
	/* What was found before the budget ran out is worth having. */
	return r && r != -E2BIG ? r : draft_sort(build);
}

static uint64_t section_vaddr(const struct elf_image *image, const char *name)
{
	const struct elf_section *section = elf_image_find_section(image, name);

	return section ? section->vaddr : 0;
}

/* .eh_frame of a file without section headers: the pointer at the begin of .eh_frame_hdr
 * (LSB 5.0, 10.6.2) says where it starts; it ends with its terminator, or its segment. */
static int find_eh_frame_by_header(const struct elf_image *image, uint64_t *vaddr,
				   struct elf_window *window)
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

static int draft_eh_frame(struct draft_build *build)
{
	const struct elf_image *image = build->image;
	const struct elf_section *section = elf_image_find_section(image, ".eh_frame");
	_cleanup_(elf_window_fini) struct elf_window window = {0};
	struct cfi_section cfi = {
	    .window = &window,
	    .text_vaddr = section_vaddr(image, ".text"),
	    .data_vaddr = section_vaddr(image, ".got"),
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
	return draft_parse(build, &cfi);
}

static int draft_debug_frame(struct draft_build *build)
{
	const struct elf_section *section = elf_image_find_section(build->image, ".debug_frame");
	_cleanup_(elf_window_fini) struct elf_window window = {0};
	const struct cfi_section cfi = {.window = &window, .debug_frame = true};

	if (!section)
		return -ENODATA;
	int r = elf_window_init_section(&window, build->image, section, LIMIT_CFI_BYTES);
	if (r < 0)
		return r == -ENOMEM ? r : -ENODATA;
	return draft_parse(build, &cfi);
}

/* What neither describes. */
static int draft_code(struct draft_build *build)
{
	const struct cfi_sink sink = draft_sink(build);
	int r = code_holes_read(build->image, build->draft, &sink);

	return r && r != -E2BIG ? r : draft_sort(build);
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
	r = draft_code(build);
	if (r < 0)
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
	free(draft->runs);
	free(draft->rows);
	*draft = (struct table_draft){0};
}
