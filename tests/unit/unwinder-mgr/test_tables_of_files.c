/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of real files. A simple model paints the rule of every byte of the text, function after
 * function, into an array as large as the file; the table must have the same rule everywhere.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <ucontext.h>

#include "parse/cfi.h"
#include "tests/support/cfi_rules.h"
#include "tests/unit/unwinder-mgr/table_lookup.h"
#include "unwinder-mgr/context_start.h"

enum { BY_CODE = UINT32_MAX }; /* no FDE describes the byte, but the code analysis may (test_uncovered_code) */

struct painting {
	const struct elf_image *image;
	uint32_t *kinds; /* by file offset: the rule's id + 1, or 0 if there is none */
	uint64_t size;
	struct cfi_rules rules;
	uint64_t overlaps;
};

static int painting_on_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct painting *painting = context;

	return cfi_rules_id(&painting->rules, rule, id);
}

static int painting_on_fde(void *context, const struct cfi_fde *fde)
{
	struct painting *painting = context;
	uint64_t begin, end;

	if (!elf_image_vaddr_to_offset(painting->image, fde->start, &begin) ||
	    !elf_image_vaddr_to_offset(painting->image, fde->end - 1, &end) || end - begin != fde->end - 1 - fde->start)
		return 0;
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const uint64_t from = begin + fde->rows[i].at;
		const uint64_t to = i + 1 < fde->row_count ? begin + fde->rows[i + 1].at : end + 1;
		const uint32_t kind = fde->rows[i].rule + 1;

		for (uint64_t offset = from; offset < to; offset++) {
			painting->overlaps += painting->kinds[offset] && painting->kinds[offset] != kind;
			painting->kinds[offset] = kind;
		}
	}
	return 0;
}

static bool saved_where_it_says(uint8_t kind, int16_t words, uint8_t cfi_kind, int32_t offset, const char *what)
{
	switch (kind) {
	case BH_FP_SAME:
		return cfi_kind == CFI_SAVE_SAME && words == 0;
	case BH_FP_CFA:
		return cfi_kind == CFI_SAVE_CFA && words * 8 == offset;
	case BH_FP_REGISTER:
		return cfi_kind == CFI_SAVE_REGISTER && words * 8 == offset && what[0] == 'p';
	default:
		return kind == BH_FP_LOST && cfi_kind != CFI_SAVE_SAME &&
		       (cfi_kind != CFI_SAVE_CFA || offset % 8 || offset < -(1 << 18));
	}
}

/* Returns whether the walker's rule means the same as the file's. */
static bool rule_means(const struct bh_rule *rule, const struct cfi_rule *cfi)
{
	const bool usual_ra = cfi->ra_kind == CFI_SAVE_CFA && cfi->ra_offset == -8;
	/* At the end of longjmp the stack pointer is in another register as well, which is not supported. */
	const bool ra_in_register = cfi->ra_kind == CFI_SAVE_IN_REGISTER && cfi->cfa_register == BH_REG_RSP;

	if (rule->kind == BH_RULE_END)
		return cfi->ra_kind == CFI_SAVE_UNDEFINED;
	if (rule->kind == BH_RULE_SIGNAL)
		return cfi->signal_frame && cfi->cfa_kind == CFI_CFA_DEREF && cfi->cfa_register == BH_REG_RSP;
	if (rule->kind == BH_RULE_UNKNOWN)
		return cfi->cfa_kind == CFI_CFA_UNKNOWN || (!usual_ra && !ra_in_register);
	if (rule->cfa != cfi->cfa_offset || !saved_where_it_says(rule->fp_kind, rule->fp, cfi->fp_kind, cfi->fp_offset, "p") ||
	    !saved_where_it_says(rule->bx_kind, rule->bx, cfi->bx_kind, cfi->bx_offset, "x"))
		return false;
	if (rule->kind == BH_RULE_RA_REGISTER)
		return ra_in_register && rule->reg == cfi->ra_register;
	if (!usual_ra)
		return false;
	switch (rule->kind) {
	case BH_RULE_SP:
		return cfi->cfa_kind == CFI_CFA_REGISTER && cfi->cfa_register == BH_REG_RSP;
	case BH_RULE_FP:
		return cfi->cfa_kind == CFI_CFA_REGISTER && cfi->cfa_register == BH_REG_RBP;
	case BH_RULE_REGISTER:
		return cfi->cfa_kind == CFI_CFA_REGISTER && cfi->cfa_register == rule->reg && rule->reg != BH_REG_RSP &&
		       rule->reg != BH_REG_RBP;
	case BH_RULE_DEREF:
		return cfi->cfa_kind == CFI_CFA_DEREF && cfi->cfa_register == rule->reg && cfi->cfa_add == rule->extra;
	case BH_RULE_PLT:
		return cfi->cfa_kind == CFI_CFA_PLT && cfi->cfa_add == rule->extra;
	default:
		return false;
	}
}

static void painting_compare(const struct painting *painting, const struct unwind_memory *memory, const char *path)
{
	uint16_t *agreed = calloc(CFI_RULES_MAX + 1, sizeof(*agreed));
	uint64_t described = 0;

	for (uint64_t offset = 0; offset < painting->size; offset++) {
		const uint32_t kind = painting->kinds[offset], rule = find_rule(memory, offset);

		if (kind == BY_CODE)
			continue;
		described += kind != 0;
		if (!kind || !rule) {
			cr_assert_eq(kind, rule, "%s+%#lx: rule %u", path, offset, rule);
			continue;
		}
		if (!agreed[kind]) {
			cr_assert(rule_means(&memory->rules->table[rule], &painting->rules.rules[kind - 1]), "%s+%#lx: rule %u kind %u", path, offset,
				  rule, memory->rules->table[rule].kind);
			agreed[kind] = (uint16_t)rule;
		}
		cr_assert_eq(rule, agreed[kind], "%s+%#lx: rule %u, not %u", path, offset, rule, agreed[kind]);
	}
	cr_assert_gt(described, 1000, "%s: %lu bytes described", path, described);
	free(agreed);
}

/* Fills gaps of less than 16 bytes with the rule before them. */
static void painting_fill(struct painting *painting)
{
	uint64_t last = UINT64_MAX;

	for (uint64_t offset = 0; offset < painting->size; offset++) {
		if (!painting->kinds[offset])
			continue;
		for (uint64_t gap = last + 1; last != UINT64_MAX && offset - last <= 16 && gap < offset; gap++)
			painting->kinds[gap] = painting->kinds[last];
		last = offset;
	}
}

static void painting_leave_code(struct painting *painting, const struct elf_image *image)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *section = &image->sections[i];
		/* Padding after a section belongs to it as well. */
		const uint64_t end = section->offset + section->size + UNWIND_GAP_BYTES;

		for (uint64_t at = section->offset; (section->flags & SHF_EXECINSTR) && at < end && at < painting->size; at++) {
			if (!painting->kinds[at])
				painting->kinds[at] = BY_CODE;
		}
	}
}

/* Nothing has called what makecontext() starts (context_start.h). */
static void painting_begin_contexts(struct painting *painting, const struct elf_image *image)
{
	static const struct cfi_rule rule = {.ra_kind = CFI_SAVE_UNDEFINED};
	uint64_t starts[CONTEXT_STARTS_MAX], offset;
	size_t count;
	uint32_t id;

	cr_assert_eq(context_start_find(image, starts, &count), 0);
	for (size_t i = 0; i < count; i++) {
		if (!elf_image_find_code(image, starts[i]) || !elf_image_vaddr_to_offset(image, starts[i], &offset))
			continue;
		cr_assert_eq(cfi_rules_id(&painting->rules, &rule, &id), 0);
		painting->kinds[offset - 1] = id + 1;
	}
}

static void paint(struct painting *painting, const struct elf_source *source)
{
	const struct cfi_budget budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	const struct cfi_sink sink = {.context = painting, .rule = painting_on_rule, .fde = painting_on_fde};
	struct elf_window window;
	struct elf_image image;
	struct cfi_stats stats;

	cr_assert_eq(elf_image_init(&image, source), 0);
	const struct elf_section *found = elf_image_find_section(&image, ".eh_frame");
	cr_assert_not_null(found);
	cr_assert_eq(elf_window_init_section(&window, &image, found, SIZE_MAX), 0);
	const struct cfi_section section = {.window = &window, .vaddr = found->vaddr};
	painting->image = &image;
	cr_assert_eq(cfi_parse(&section, &budget, &sink, &stats), 0);
	painting->image = NULL;
	painting_fill(painting);
	painting_leave_code(painting, &image);
	painting_begin_contexts(painting, &image);
	elf_window_fini(&window);
	elf_image_fini(&image);
}

static bool check_file(const char *path)
{
	struct unwind_file file;
	struct painting painting = {0};
	struct unwind_table_builder builder;
	struct table table;

	if (unwind_file_read(&file, path) < 0)
		return false;
	const struct elf_source *source = unwind_file_source(&file);
	struct unwind_memory memory = memory_with(8);
	painting.size = source->size;
	painting.kinds = calloc(painting.size, sizeof(painting.kinds[0]));
	cr_assert_eq(cfi_rules_init(&painting.rules), 0);
	paint(&painting, source);
	cr_assert_eq(painting.overlaps, 0, "%s: %lu bytes described twice", path, painting.overlaps);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, source), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_publish(&memory, SLOT, MODULE_ID, &table);
	painting_compare(&painting, &memory, path);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(painting.kinds);
	cfi_rules_fini(&painting.rules);
	free(file.data);
	return true;
}

static int on_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned int *count = context;

	(void)size;
	if (info->dlpi_name[0] == '/')
		*count += check_file(info->dlpi_name);
	return 0;
}

/* libc, ld.so, the other libraries of this test, and the test itself. */
Test(tables_of_files, every_byte_of_the_loaded_files_has_the_described_rule)
{
	unsigned int count = 0;

	dl_iterate_phdr(on_loaded, &count);
	cr_assert_geq(count, 2);
	cr_assert(check_file("/proc/self/exe"));
}

Test(tables_of_files, every_byte_of_libstdcxx_has_the_described_rule)
{
	if (!check_file("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"))
		cr_skip_test("not installed");
}

Test(tables_of_files, every_byte_of_a_large_program_has_the_described_rule)
{
	if (!check_file("/usr/bin/gdb") && !check_file("/usr/bin/cmake"))
		cr_skip_test("not installed");
}

static void function_of_context(void)
{
}

/* Returns where a function that makecontext() starts would return to. */
static uint64_t return_address_of_context(void)
{
	static uint64_t stack[1024];
	ucontext_t context;

	cr_assert_eq(getcontext(&context), 0);
	context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof(stack)};
	context.uc_link = NULL;
	makecontext(&context, function_of_context, 0);
	return *(const uint64_t *)(uintptr_t)context.uc_mcontext.gregs[REG_RSP];
}

Test(tables_of_files, nothing_has_called_what_makecontext_starts)
{
	const uint64_t address = return_address_of_context();
	struct unwind_memory memory = memory_with(8);
	struct unwind_table_builder builder;
	struct unwind_file file;
	struct elf_image image;
	struct table table;
	uint64_t offset;
	Dl_info libc;

	cr_assert_neq(dladdr((const void *)(uintptr_t)address, &libc), 0);
	cr_assert_eq(unwind_file_read(&file, libc.dli_fname), 0);
	const struct elf_source *source = unwind_file_source(&file);
	cr_assert_eq(elf_image_init(&image, source), 0);
	cr_assert(elf_image_vaddr_to_offset(&image, address - (uintptr_t)libc.dli_fbase, &offset));
	elf_image_fini(&image);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, source), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_publish(&memory, SLOT, MODULE_ID, &table);
	cr_expect_eq(memory.rules->table[find_rule(&memory, offset - 1)].kind, BH_RULE_END);
	cr_expect_eq(memory.rules->table[find_rule(&memory, offset)].kind, BH_RULE_SP, "its own rule is as before");
	cr_expect_neq(memory.rules->table[find_rule(&memory, offset - 2)].kind, BH_RULE_END, "as is that of what is before it");
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file.data);
}
