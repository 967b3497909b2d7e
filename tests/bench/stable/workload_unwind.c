/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads: building tables from call frame information, and walking with them. */
#include <string.h>

#include "parse/cfi.h"
#include "tests/bench/stable/inputs.h"
#include "tests/bench/stable/measure.h"
#include "tests/bench/stable/workloads.h"
#include "tests/support/cfi_rules.h"
#include "tests/support/unwind_memory.h"

enum {
	SLABS = 4,
	SLOT = 1,
	WALKS = 50,
};

void workload_cfi(void)
{
	const struct input_elf *elf = input_elf_new();
	struct elf_buffer buffer = {elf->data, elf->length};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	const struct cfi_budget budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct elf_window window;
	const struct cfi_section section = {.window = &window, .vaddr = elf->eh_frame};
	struct cfi_sum sum = {.sum = 0};
	const struct cfi_sink sink = {.context = &sum, .rule = cfi_sum_rule, .fde = cfi_sum_rows};
	struct cfi_stats stats;

	NEED(!cfi_rules_init(&sum.rules));
	elf_window_init(&window, &source, elf->eh_frame, elf->eh_frame_length);
	measure_begin();
	NEED(!cfi_parse(&section, &budget, &sink, &stats));
	measure_end(stats.rows);
	elf_window_fini(&window);
	NEED(sum.sum && stats.fdes == INPUT_FUNCTIONS && !stats.bad_fdes);
}

/* A module's table on its way. */
struct unwound {
	struct unwind_memory memory;
	struct elf_buffer buffer;
	struct elf_source source;
	struct unwind_table_builder builder;
	struct table table;
};

static struct unwound *unwound_new(const struct input_elf *elf)
{
	struct unwound *u = calloc(1, sizeof(*u));

	NEED(u && !unwind_memory_init(&u->memory, SLABS));
	u->buffer = (struct elf_buffer){elf->data, elf->length};
	u->source = elf_source_from_buffer(&u->buffer);
	return u;
}

static void build_rows(struct unwound *u)
{
	NEED(!unwind_table_build(&u->builder, u->memory.rules, RULES_MAX, &u->source));
}

static void place(struct unwound *u)
{
	NEED(!table_place(&u->table, &u->builder, &u->memory.slabs));
}

static uint64_t count_deltas(const struct unwound *u)
{
	const struct bh_page *pages = slabs_at(&u->memory.slabs, &u->table.pages);
	uint64_t count = 0;

	for (uint32_t i = 0; i < u->table.page_count; i++) {
		/* Pages of one delta share it. */
		if (!i || pages[i].offset != pages[i - 1].offset ||
		    pages[i].slab != pages[i - 1].slab)
			count += pages[i].count;
	}
	return count;
}

void workload_table_build(void)
{
	struct unwound *u = unwound_new(input_elf_new());

	measure_begin();
	build_rows(u);
	measure_end(INPUT_FUNCTIONS);
	NEED(u->builder.row_count >= INPUT_FUNCTIONS && !u->builder.bad_fdes);
}

void workload_table_place(void)
{
	struct unwound *u = unwound_new(input_elf_new());

	build_rows(u);
	measure_begin();
	place(u);
	measure_end(INPUT_FUNCTIONS);
	const uint64_t deltas = count_deltas(u);
	measure_figure("bytes.table", (double)u->table.bytes, "bytes");
	measure_figure("bytes.table_delta", (double)u->table.bytes / (double)deltas, "bytes/delta");
	measure_figure("count.table_rules", (double)u->table.rule_count, "rules");
}

void workload_walker(void)
{
	const struct input_elf *elf = input_elf_new();
	const struct input_stack *stack = input_stack_new(elf);
	const struct walker_stack copy = {stack->start, stack->bytes, sizeof(stack->bytes)};
	struct unwound *u = unwound_new(elf);
	uint64_t frames[BH_USER_FRAMES_MAX];
	struct slab_block mapping;
	unsigned int count;

	build_rows(u);
	place(u);
	unwind_memory_publish(&u->memory, SLOT, INPUT_MODULE, &u->table);
	NEED(!slabs_alloc(&u->memory.slabs, sizeof(struct bh_mapping), &mapping));
	*(struct bh_mapping *)slabs_at(&u->memory.slabs, &mapping) =
	    (struct bh_mapping){.end = elf->length, .slot = SLOT, .module_id = INPUT_MODULE};
	const struct walker_tables tables = unwind_memory_tables(&u->memory);
	measure_begin();
	for (int i = 0; i < WALKS; i++) {
		NEED(walker_run(&tables, &stack->registers, &copy, mapping.slab, mapping.offset, 1,
				frames, &count) == BH_REASON_COMPLETE);
		NEED(count == INPUT_WALK_FRAMES);
	}
	measure_end((uint64_t)WALKS * INPUT_WALK_FRAMES);
	NEED(!memcmp(frames, stack->frames, sizeof(stack->frames)));
}
