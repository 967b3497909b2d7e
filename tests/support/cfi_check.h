/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that checks what cfi.h promises of every FDE and its rules, for fuzzers. */
#ifndef TESTS_SUPPORT_CFI_CHECK_H
#define TESTS_SUPPORT_CFI_CHECK_H

#include <stdlib.h>

#include "tests/support/cfi_rules.h"

/* The results of one parse. */
struct cfi_delivered {
	struct cfi_rules *rules;
	uint64_t fdes, rows, sum;
};

static inline void check(bool good)
{
	if (!good)
		abort();
}

static inline bool save_has_register(uint8_t kind)
{
	return kind == CFI_SAVE_REGISTER || kind == CFI_SAVE_IN_REGISTER;
}

static inline void check_rule(const struct cfi_rule *rule)
{
	bool register_used = rule->cfa_kind == CFI_CFA_REGISTER ||
			     rule->cfa_kind == CFI_CFA_DEREF ||
			     rule->cfa_kind == CFI_CFA_OTHER_STACK;
	bool add_used = rule->cfa_kind == CFI_CFA_DEREF || rule->cfa_kind == CFI_CFA_PLT;

	check(rule->cfa_kind <= CFI_CFA_OTHER_STACK);
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

static inline bool check_want(void *context, uint64_t start, uint64_t end)
{
	(void)context;
	check(start < end);
	return true;
}

static inline int check_id(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct cfi_delivered *delivered = context;

	check_rule(rule);
	return cfi_rules_id(delivered->rules, rule, id);
}

static inline int check_fde(void *context, const struct cfi_fde *fde)
{
	struct cfi_delivered *delivered = context;

	check(fde->start < fde->end && fde->end - fde->start <= UINT32_MAX);
	check(fde->row_count > 0 && fde->rows[0].at == 0);
	for (unsigned int i = 0; i < fde->row_count; i++) {
		check(fde->rows[i].rule < delivered->rules->count);
		check(fde->rows[i].at < fde->end - fde->start);
		check(!i || fde->rows[i - 1].at < fde->rows[i].at);
		check(!i || fde->rows[i - 1].rule != fde->rows[i].rule);
		delivered->sum =
		    delivered->sum * 31 + fde->start + fde->rows[i].at + fde->rows[i].rule;
	}
	delivered->fdes++;
	delivered->rows += fde->row_count;
	return 0;
}

static inline struct cfi_sink check_sink(struct cfi_delivered *delivered)
{
	return (struct cfi_sink){
	    .context = delivered, .want = check_want, .rule = check_id, .fde = check_fde};
}

#endif
