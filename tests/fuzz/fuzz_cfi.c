/* SPDX-License-Identifier: Apache-2.0 */
/* One byte of switches, then a section. Besides memory, it checks what cfi.h promises of every FDE
 * and its rules, and that small windows show the same. */
#include <stdlib.h>
#include <string.h>

#include "parse/cfi.h"
#include "tests/support/cfi_rules.h"

enum {
	SWITCH_DEBUG_FRAME = 1,
	SWITCH_NO_ADDRESSES = 2,
	SWITCH_SMALL_BUDGET = 4,
	SMALL_WINDOW_BYTES = 13,
};

/* One parse of the section: what it told. */
struct told {
	struct cfi_rules *rules;
	uint64_t fdes, rows, sum;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static bool save_has_register(uint8_t kind)
{
	return kind == CFI_SAVE_REGISTER || kind == CFI_SAVE_IN_REGISTER;
}

static void check_rule(const struct cfi_rule *rule)
{
	bool register_used = rule->cfa_kind == CFI_CFA_REGISTER || rule->cfa_kind == CFI_CFA_DEREF;
	bool add_used = rule->cfa_kind == CFI_CFA_DEREF || rule->cfa_kind == CFI_CFA_PLT;

	check(rule->cfa_kind <= CFI_CFA_PLT);
	check(rule->fp_kind <= CFI_SAVE_UNKNOWN && rule->ra_kind <= CFI_SAVE_UNKNOWN);
	check(rule->cfa_register < (register_used ? 16 : 1));
	check(rule->fp_register < (save_has_register(rule->fp_kind) ? 16 : 1));
	check(rule->ra_register < (save_has_register(rule->ra_kind) ? 16 : 1));
	check(rule->cfa_kind != CFI_CFA_UNKNOWN || rule->cfa_offset == 0);
	check(add_used || rule->cfa_add == 0);
	check(rule->fp_kind == CFI_SAVE_CFA || rule->fp_kind == CFI_SAVE_REGISTER ||
	      rule->fp_offset == 0);
	check(rule->ra_kind == CFI_SAVE_CFA || rule->ra_kind == CFI_SAVE_REGISTER ||
	      rule->ra_offset == 0);
	check(rule->signal_frame <= 1 && rule->reserved == 0);
	check(rule->bx_kind == CFI_SAVE_SAME || rule->bx_kind == CFI_SAVE_CFA ||
	      rule->bx_kind == CFI_SAVE_UNKNOWN);
	check(rule->bx_kind == CFI_SAVE_CFA || rule->bx_offset == 0);
}

static bool want(void *context, uint64_t start, uint64_t end)
{
	(void)context;
	check(start < end);
	return true;
}

static int number(void *context, const struct cfi_rule *rule, uint32_t *number)
{
	struct told *told = context;

	check_rule(rule);
	return cfi_rules_number(told->rules, rule, number);
}

static int check_fde(void *context, const struct cfi_fde *fde)
{
	struct told *told = context;

	check(fde->start < fde->end && fde->end - fde->start <= UINT32_MAX);
	check(fde->row_count > 0 && fde->rows[0].at == 0);
	for (unsigned int i = 0; i < fde->row_count; i++) {
		check(fde->rows[i].rule < told->rules->count);
		check(fde->rows[i].at < fde->end - fde->start);
		check(!i || fde->rows[i - 1].at < fde->rows[i].at);
		check(!i || fde->rows[i - 1].rule != fde->rows[i].rule);
		told->sum = told->sum * 31 + fde->start + fde->rows[i].at + fde->rows[i].rule;
	}
	told->fdes++;
	told->rows += fde->row_count;
	return 0;
}

static struct told parse(struct cfi_section section, const struct elf_source *source,
			 struct cfi_rules *rules, const struct cfi_budget *budget, size_t step)
{
	struct told told = {.rules = rules};
	const struct cfi_sink sink = {
	    .context = &told, .want = want, .rule = number, .fde = check_fde};
	struct elf_window window;
	struct cfi_stats stats;

	elf_window_init(&window, source, 0, source->size);
	if (step)
		window.step = step;
	section.window = &window;
	cfi_parse(&section, budget, &sink, &stats);
	elf_window_fini(&window);
	check(told.fdes == stats.fdes && told.rows == stats.rows);
	check(stats.fdes + stats.bad_fdes <= budget->fdes && stats.rows <= budget->rows);
	return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cfi_rules rules;
	struct cfi_budget budget = {10000, 100000, 1000000};

	if (size == 0)
		return 0;
	if (!rules.rules)
		check(cfi_rules_init(&rules) == 0);
	struct cfi_section section = {.debug_frame = data[0] & SWITCH_DEBUG_FRAME};
	if (!(data[0] & SWITCH_NO_ADDRESSES)) {
		section.vaddr = 0x10000;
		section.text_vaddr = 0x20000;
		section.data_vaddr = 0x30000;
	}
	if (data[0] & SWITCH_SMALL_BUDGET)
		budget = (struct cfi_budget){5, 20, 50};
	struct elf_buffer buffer = {data + 1, size - 1};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	cfi_rules_forget(&rules);
	const struct told whole = parse(section, &source, &rules, &budget, 0);
	const struct told pieces = parse(section, &source, &rules, &budget, SMALL_WINDOW_BYTES);
	check(whole.fdes == pieces.fdes && whole.rows == pieces.rows && whole.sum == pieces.sum);
	return 0;
}
