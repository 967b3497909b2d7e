/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a CFA program: the rule that holds at the current place, and what instructions need
 * in addition. Internal to cfi*.c. */
#ifndef PARSE_CFI_STATE_H
#define PARSE_CFI_STATE_H

#include "common/cursor.h"
#include "parse/cfi_types.h"

/* DWARF numbers of registers (x86-64 psABI, "DWARF Register Number Mapping"). */
enum {
	REGISTER_BX = 3,     /* rbx */
	REGISTER_FP = 6,     /* rbp */
	REGISTER_SP = 7,     /* rsp */
	REGISTER_RA = 16,    /* the return address */
	REGISTER_COUNT = 16, /* general registers, which can be the base of a CFA */
};

/* A CFA that is register + offset. */
struct cfi_cfa {
	uint64_t reg;
	int64_t offset;
};

struct cfi_state {
	struct cfi_rule rule;
	/* The register and the offset that were set before the CFA became an expression; zero while
	 * it is none. DW_CFA_def_cfa_register after an expression uses this offset again, as in
	 * libgcc and gdb. */
	struct cfi_cfa plain_cfa;
};

static inline bool fits_int32(int64_t value)
{
	return value >= INT32_MIN && value <= INT32_MAX;
}

/* Returns whether rules describe the register. */
static inline bool register_matters(uint64_t reg)
{
	return reg == REGISTER_FP || reg == REGISTER_RA || reg == REGISTER_BX;
}

/* Returns the state before any instruction: no CFA; rbp and rbx unchanged, as the ABI requires; no
 * return address. */
struct cfi_state cfi_state_blank(bool signal_frame);

/* Returns whether the CFA is register + offset, which it nearly always is. */
bool cfi_state_cfa_is_plain(const struct cfi_state *state);

/* Returns the register and the offset of the CFA that were set last, even if the CFA is an
 * expression now. */
struct cfi_cfa cfi_state_get_cfa(const struct cfi_state *state);

/* Sets the CFA to register + offset, or to unknown if a rule cannot hold these. */
void cfi_state_put_cfa(struct cfi_state *state, struct cfi_cfa cfa);

/* Runs DW_CFA_def_cfa_expression. An expression of an unknown form makes the CFA unknown, and never
 * the FDE invalid. */
void cfi_state_put_cfa_expression(struct cfi_state *state, struct cursor expression);

/* Sets how a register is saved, if it is one that rules describe: `kind` is an enum cfi_save_kind,
 * `base` and `offset` are the register and the offset that belong to it. */
void cfi_state_put_save(struct cfi_state *state, uint64_t reg, uint8_t kind, unsigned int base,
			int64_t offset);

/* Runs DW_CFA_register: the value of `reg` is in the general register `in`. */
void cfi_state_put_register(struct cfi_state *state, uint64_t reg, uint64_t in);

/* Runs DW_CFA_expression, whose expression computes the address at which `reg` was saved. The CFA
 * is on the expression's stack at its start. */
void cfi_state_put_save_expression(struct cfi_state *state, uint64_t reg, struct cursor expression);

/* Runs DW_CFA_restore: how `reg` is saved becomes what the CIE says. `initial` is the state at the
 * end of the CIE's program. */
void cfi_state_restore(struct cfi_state *state, uint64_t reg, const struct cfi_state *initial);

#endif
