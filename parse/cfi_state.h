/* SPDX-License-Identifier: Apache-2.0 */
/* What a CFA program computes, spelled out: the rule that holds where it has come to. Internal to
 * cfi*.c. */
#ifndef PARSE_CFI_STATE_H
#define PARSE_CFI_STATE_H

#include "common/cursor.h"
#include "parse/cfi.h"

enum {
	REGISTER_BX = 3,  /* rbx */
	REGISTER_FP = 6,  /* rbp */
	REGISTER_SP = 7,  /* rsp */
	REGISTER_RA = 16, /* the return address */
	REGISTER_COUNT = 16,
};

/* A CFA that is a register and an offset. */
struct cfi_cfa {
	uint64_t reg;
	int64_t offset;
};

struct cfi_state {
	struct cfi_rule rule;
	/* What def_cfa and its kin set last, while the rule has none of that, else zero:
	 * def_cfa_register after an expression goes back to the offset from before it (so do libgcc
	 * and gdb). */
	struct cfi_cfa behind;
};

static inline bool fits_int32(int64_t value)
{
	return value >= INT32_MIN && value <= INT32_MAX;
}

/* Whether there are rules for a saved register. */
static inline bool register_matters(uint64_t reg)
{
	return reg == REGISTER_FP || reg == REGISTER_RA || reg == REGISTER_BX;
}

/* Before any instruction: no CFA, rbp unchanged (the ABI says so), no return address. */
struct cfi_state cfi_state_blank(bool signal_frame);

/* Whether the CFA is a register and an offset, which is nearly always. */
bool cfi_state_cfa_is_plain(const struct cfi_state *state);

/* What def_cfa and its kin set last, whatever the rule says; and set it, if a rule can hold it. */
struct cfi_cfa cfi_state_get_cfa(const struct cfi_state *state);
void cfi_state_put_cfa(struct cfi_state *state, struct cfi_cfa cfa);

/* DW_CFA_def_cfa_expression. Every form but the known ones makes the CFA unknown, never the FDE
 * bad. */
void cfi_state_put_cfa_expression(struct cfi_state *state, struct cursor expression);

/* The rule of a register, if it is one that matters: `kind` (enum cfi_save_kind) with the register
 * and the offset that go with it. */
void cfi_state_put_save(struct cfi_state *state, uint64_t reg, uint8_t kind, unsigned int base,
			int64_t offset);

/* DW_CFA_register: the value is in another general register. */
void cfi_state_put_register(struct cfi_state *state, uint64_t reg, uint64_t in);

/* DW_CFA_expression: where a register was saved; the CFA is on the stack when it begins. */
void cfi_state_put_save_expression(struct cfi_state *state, uint64_t reg, struct cursor expression);

/* What the CIE says of a register. */
void cfi_state_restore(struct cfi_state *state, uint64_t reg, const struct cfi_state *initial);

#endif
