/* SPDX-License-Identifier: Apache-2.0 */
/* One byte of switches, then a section. Besides memory, it checks what cfi.h promises of every FDE
 * and its rules. */
#include <stdlib.h>
#include <string.h>

#include "parse/cfi.h"

enum {
	SWITCH_DEBUG_FRAME = 1,
	SWITCH_NO_ADDRESSES = 2,
	SWITCH_SMALL_BUDGET = 4
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

static int check_fde(void *context, const struct cfi_fde *fde)
{
	struct cfi_stats *seen = context;

	check(fde->start < fde->end && fde->row_count > 0 && fde->starts[0] == fde->start);
	for (unsigned int i = 0; i < fde->row_count; i++) {
		check_rule(&fde->rules[i]);
		check(fde->starts[i] < fde->end);
		if (i == 0)
			continue;
		check(fde->starts[i - 1] < fde->starts[i]);
		check(memcmp(&fde->rules[i - 1], &fde->rules[i], sizeof(*fde->rules)) != 0);
	}
	seen->fdes++;
	seen->rows += fde->row_count;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cfi_budget budget = {10000, 100000, 1000000};
	struct cfi_stats stats, seen = {0};

	if (size == 0)
		return 0;
	struct cfi_section section = {
	    .data = data + 1, .length = size - 1, .debug_frame = data[0] & SWITCH_DEBUG_FRAME};
	if (!(data[0] & SWITCH_NO_ADDRESSES)) {
		section.vaddr = 0x10000;
		section.text_vaddr = 0x20000;
		section.data_vaddr = 0x30000;
	}
	if (data[0] & SWITCH_SMALL_BUDGET)
		budget = (struct cfi_budget){5, 20, 50};
	cfi_parse(&section, &budget, check_fde, &seen, &stats);
	check(seen.fdes == stats.fdes && seen.rows == stats.rows);
	check(stats.fdes + stats.bad_fdes <= budget.fdes && stats.rows <= budget.rows);
	check(stats.unknown_rows <= stats.rows);
	return 0;
}
