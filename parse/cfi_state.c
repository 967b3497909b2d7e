/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the state of a CFA program.
 *
 * How this works: the state is a rule (cfi.h), in which the CFA and each of three registers have a
 * kind, a register and an offset of 32 bits. Every instruction is reduced to one of these kinds.
 * What does not fit becomes UNKNOWN, and only that: the row stays usable for what is known, and the
 * walker stops at the frame if it needs the rest.
 *
 * DWARF expressions are not interpreted. Compilers and linkers write few of them, and each known
 * form has a kind:
 *	- CFI_CFA_PLT: breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus, in lazy PLTs;
 *	- CFI_CFA_DEREF: bregN x; deref [; plus_uconst y], where the CFA is saved in memory: in
 *	  code that aligns its stack, and in the signal trampoline;
 *	- CFI_SAVE_REGISTER: bregN x, for a register that is saved at register + x;
 *	- CFI_SAVE_CFA: plus_uconst x, for a register that is saved at CFA + x.
 *
 * Example: gcc realigns the stack in main() and writes DW_CFA_def_cfa_expression {breg6 -8, deref}.
 * The rule becomes {CFI_CFA_DEREF, register 6, offset -8}: the CFA is the word at rbp - 8.
 */
#include "parse/cfi_state.h"

#include "parse/cfi_encoding.h"

/* The operations of the known expressions (DWARF 5 section 7.7.1). */
enum {
	OP_DEREF = 0x06,
	OP_PLUS_UCONST = 0x23,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
};

struct cfi_state cfi_state_blank(bool signal_frame)
{
	return (struct cfi_state){.rule.signal_frame = signal_frame, .plain_cfa.reg = UINT64_MAX};
}

/* ---- The CFA ---- */

static void state_put_rule(struct cfi_state *state, uint8_t kind, unsigned int reg, int32_t offset,
			   int32_t add)
{
	state->rule.cfa_kind = kind;
	state->rule.cfa_register = (uint8_t)reg;
	state->rule.cfa_offset = offset;
	state->rule.cfa_add = add;
}

bool cfi_state_cfa_is_plain(const struct cfi_state *state)
{
	return state->rule.cfa_kind == CFI_CFA_REGISTER;
}

struct cfi_cfa cfi_state_get_cfa(const struct cfi_state *state)
{
	if (!cfi_state_cfa_is_plain(state))
		return state->plain_cfa;
	return (struct cfi_cfa){state->rule.cfa_register, state->rule.cfa_offset};
}

void cfi_state_put_cfa(struct cfi_state *state, struct cfi_cfa cfa)
{
	if (cfa.reg < REGISTER_COUNT && fits_int32(cfa.offset)) {
		state_put_rule(state, CFI_CFA_REGISTER, (unsigned int)cfa.reg, (int32_t)cfa.offset,
			       0);
		state->plain_cfa = (struct cfi_cfa){0};
	} else {
		state_put_rule(state, CFI_CFA_UNKNOWN, 0, 0, 0);
		state->plain_cfa = cfa;
	}
}

/* ---- Saved registers ---- */

void cfi_state_put_save(struct cfi_state *state, uint64_t reg, uint8_t kind, unsigned int base,
			int64_t offset)
{
	struct cfi_rule *rule = &state->rule;

	if (!fits_int32(offset)) {
		kind = CFI_SAVE_UNKNOWN;
		base = 0;
		offset = 0;
	}
	if (reg == REGISTER_FP) {
		rule->fp_kind = kind;
		rule->fp_register = (uint8_t)base;
		rule->fp_offset = (int32_t)offset;
	} else if (reg == REGISTER_RA) {
		rule->ra_kind = kind;
		rule->ra_register = (uint8_t)base;
		rule->ra_offset = (int32_t)offset;
	} else if (reg == REGISTER_BX) {
		const bool known = kind == CFI_SAVE_SAME || kind == CFI_SAVE_CFA;

		rule->bx_kind = known ? kind : CFI_SAVE_UNKNOWN;
		rule->bx_offset = kind == CFI_SAVE_CFA ? (int32_t)offset : 0;
	}
}

void cfi_state_put_register(struct cfi_state *state, uint64_t reg, uint64_t in)
{
	if (in < REGISTER_RA)
		cfi_state_put_save(state, reg, CFI_SAVE_IN_REGISTER, (unsigned int)in, 0);
	else
		cfi_state_put_save(state, reg, CFI_SAVE_UNKNOWN, 0, 0);
}

void cfi_state_restore(struct cfi_state *state, uint64_t reg, const struct cfi_state *initial)
{
	const struct cfi_rule *rule = &initial->rule;

	if (reg == REGISTER_FP)
		cfi_state_put_save(state, reg, rule->fp_kind, rule->fp_register, rule->fp_offset);
	else if (reg == REGISTER_RA)
		cfi_state_put_save(state, reg, rule->ra_kind, rule->ra_register, rule->ra_offset);
	else if (reg == REGISTER_BX)
		cfi_state_put_save(state, reg, rule->bx_kind, 0, rule->bx_offset);
}

/* ---- Expressions ---- */

/* Reads DW_OP_bregN x or DW_OP_bregx N x. Returns false if it is something else, or a rule cannot
 * hold the register or the offset. */
static bool expression_breg(struct cursor *c, unsigned int *reg, int32_t *offset)
{
	uint8_t op = cursor_u8(c);
	uint64_t number;

	if (op >= OP_BREG0 && op <= OP_BREG31)
		number = op - OP_BREG0;
	else if (op == OP_BREGX)
		number = cfi_read_uleb(c);
	else
		return false;
	int64_t value = cfi_read_sleb(c);
	if (c->failed || number >= REGISTER_COUNT || !fits_int32(value))
		return false;
	*reg = (unsigned int)number;
	*offset = (int32_t)value;
	return true;
}

/*
 * Recognises the expression of lazy PLT sections, whose slots of 16 bytes have pushed one more word
 * from their Nth byte on: breg7 (rsp) 8; breg16 (rip) 0; lit15; and; litN; ge; lit3; shl; plus. GNU
 * ld writes it (bfd/elf64-x86-64.c), with N = 11 for its classic PLT.
 */
static bool expression_plt(const struct cursor *expression, int32_t *threshold)
{
	static const uint8_t before[] = {OP_BREG0 + REGISTER_SP, 8,   OP_BREG0 + REGISTER_RA, 0,
					 OP_LIT0 + 15,		 0x1a};
	static const uint8_t after[] = {0x2a, OP_LIT0 + 3, 0x24, 0x22};
	struct cursor c = *expression;
	const uint8_t *head = cursor_take(&c, sizeof(before));
	uint8_t lit = cursor_u8(&c);
	const uint8_t *tail = cursor_take(&c, sizeof(after));

	if (!head || !tail || cursor_left(&c) > 0 || lit < OP_LIT0 || lit > OP_LIT0 + 15 ||
	    memcmp(head, before, sizeof(before)) != 0 || memcmp(tail, after, sizeof(after)) != 0)
		return false;
	*threshold = lit - OP_LIT0;
	return true;
}

void cfi_state_put_cfa_expression(struct cfi_state *state, struct cursor expression)
{
	int32_t offset, threshold;
	unsigned int reg;

	state->plain_cfa = cfi_state_get_cfa(state);
	if (expression_plt(&expression, &threshold)) {
		state_put_rule(state, CFI_CFA_PLT, 0, 8, threshold);
		return;
	}
	state_put_rule(state, CFI_CFA_UNKNOWN, 0, 0, 0);
	if (!expression_breg(&expression, &reg, &offset))
		return;
	if (cursor_left(&expression) == 0) {
		cfi_state_put_cfa(state, (struct cfi_cfa){reg, offset});
		return;
	}
	if (cursor_u8(&expression) != OP_DEREF)
		return;
	uint64_t add = 0;
	if (cursor_left(&expression) > 0) {
		if (cursor_u8(&expression) != OP_PLUS_UCONST)
			return;
		add = cfi_read_uleb(&expression);
		if (expression.failed || cursor_left(&expression) > 0 || add > INT32_MAX)
			return;
	}
	state_put_rule(state, CFI_CFA_DEREF, reg, offset, (int32_t)add);
}

void cfi_state_put_save_expression(struct cfi_state *state, uint64_t saved,
				   struct cursor expression)
{
	struct cursor plus = expression;
	int32_t offset;
	unsigned int reg;

	if (expression_breg(&expression, &reg, &offset) && cursor_left(&expression) == 0) {
		cfi_state_put_save(state, saved, CFI_SAVE_REGISTER, reg, offset);
		return;
	}
	if (cursor_u8(&plus) == OP_PLUS_UCONST) {
		uint64_t add = cfi_read_uleb(&plus);

		if (!plus.failed && cursor_left(&plus) == 0 && add <= INT32_MAX) {
			cfi_state_put_save(state, saved, CFI_SAVE_CFA, 0, (int32_t)add);
			return;
		}
	}
	cfi_state_put_save(state, saved, CFI_SAVE_UNKNOWN, 0, 0);
}
