/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/rule_compile.h"

enum {
	/* Register numbers of the x86-64 psABI, figure 3.36. */
	DWARF_FP = 6, /* rbp */
	DWARF_SP = 7, /* rsp */
};

/* Returns whether the rule is that of a signal trampoline. Those of glibc and of the kernel
 * describe the interrupted registers by expressions over rsp; the walker reads them from the
 * ucontext. */
static bool rule_is_signal(const struct cfi_rule *rule)
{
	return rule->signal_frame && rule->cfa_kind == CFI_CFA_DEREF &&
	       rule->cfa_register == DWARF_SP;
}

/* Returns whether the place of a saved register can be expressed: a 16-bit number of words from the
 * CFA, which reaches 256 KiB. A register saved further away counts as lost. */
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
	if (rule->cfa_kind == CFI_CFA_FRAME_POINTER)
		return BH_RULE_FRAME_POINTER;
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
	case CFI_CFA_OTHER_STACK:
		return BH_RULE_OTHER_STACK;
	case CFI_CFA_DEREF:
		return BH_RULE_DEREF;
	case CFI_CFA_PLT:
		return BH_RULE_PLT;
	default:
		return BH_RULE_UNKNOWN;
	}
}

struct bh_rule rule_compile(const struct cfi_rule *rule)
{
	struct bh_rule out = {.kind = rule_kind(rule)};

	if (out.kind == BH_RULE_END || out.kind == BH_RULE_SIGNAL || out.kind == BH_RULE_UNKNOWN ||
	    out.kind == BH_RULE_FRAME_POINTER)
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
