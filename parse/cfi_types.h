/* SPDX-License-Identifier: Apache-2.0 */
/* The unwind rules and rows that cfi.h and code_flow.h make, the sink that receives them, and the
 * budget of a parse. */
#ifndef PARSE_CFI_TYPES_H
#define PARSE_CFI_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* How the canonical frame address (CFA) is found. */
enum cfi_cfa_kind {
	CFI_CFA_UNKNOWN,  /* an expression of no form below, or a register that does not exist */
	CFI_CFA_REGISTER, /* register + cfa_offset */
	CFI_CFA_DEREF,	  /* *(register + cfa_offset) + cfa_add: DW_OP_bregN x, DW_OP_deref [,
			     DW_OP_plus_uconst y] */
	CFI_CFA_PLT, /* rsp + 8 + ((rip & 15) >= threshold ? 8 : 0), as linkers write it for lazy
			PLTs: cfa_add is the threshold, cfa_offset the constant 8 */
	/* Only code_flow.h makes these. The CFA is unknown, but rbp may be a frame pointer; */
	CFI_CFA_FRAME_POINTER,
	/* rbp + cfa_offset, on another stack: the function has loaded rsp. */
	CFI_CFA_OTHER_STACK,
};

/* How a saved register (frame pointer, return address) is found. */
enum cfi_save_kind {
	CFI_SAVE_SAME,	      /* unchanged (never the return address on x86-64) */
	CFI_SAVE_CFA,	      /* at *(CFA + offset) */
	CFI_SAVE_REGISTER,    /* at *(save register + offset): DW_CFA_expression with DW_OP_bregN */
	CFI_SAVE_UNDEFINED,   /* for the return address: the outermost frame */
	CFI_SAVE_IN_REGISTER, /* in the save register: DW_CFA_register (glibc's vfork keeps its
				 return address in one) */
	CFI_SAVE_UNKNOWN,     /* an expression, or a value that is not in memory */
};

/* Fields that a kind does not use are zero, so that rules can be compared with memcmp. DWARF
 * register numbers on x86-64: 3 is rbx, 6 rbp, 7 rsp, 16 the return address. rbx is included
 * because it is the base of some frames in hand-written code, such as ld.so's lazy resolver. */
struct cfi_rule {
	uint8_t cfa_kind;     /* enum cfi_cfa_kind */
	uint8_t cfa_register; /* DWARF number, 0..15 */
	uint8_t fp_kind;      /* enum cfi_save_kind, of rbp */
	uint8_t fp_register;  /* register for CFI_SAVE_REGISTER and _IN_REGISTER */
	uint8_t ra_kind;      /* enum cfi_save_kind */
	uint8_t ra_register;  /* register for CFI_SAVE_REGISTER and _IN_REGISTER */
	uint8_t signal_frame; /* 1: augmentation 'S', its caller was interrupted */
	uint8_t bx_kind;      /* enum cfi_save_kind, of rbx: SAME, CFA, or UNKNOWN for all others */
	int32_t cfa_offset;
	int32_t cfa_add;
	int32_t fp_offset;
	int32_t ra_offset;
	int32_t bx_offset;
	int32_t reserved;
};
_Static_assert(sizeof(struct cfi_rule) == 32, "compared as bytes");

/* From `at` on, the rule with this id holds. */
struct cfi_row {
	uint32_t at;   /* bytes from the start of the function */
	uint32_t rule; /* an id that the sink has assigned */
};

/* The rows of one FDE, in ascending order. The first one is at 0, the last one holds up to `end`,
 * and no two neighbours have the same rule. */
struct cfi_fde {
	uint64_t start, end; /* virtual addresses, start < end, less than 4 GiB apart */
	const struct cfi_row *rows;
	unsigned int row_count;
};

/* Receives the results. If a callback returns an error (a negative errno, but not -EBADMSG), the
 * parse ends and returns it. */
struct cfi_sink {
	void *context;
	/* Returns whether an FDE is of interest. The programs of others are not run. NULL: all are
	 * of interest. */
	bool (*want)(void *context, uint64_t start, uint64_t end);
	/* Assigns an id below UINT32_MAX to a rule. The parser caches ids but may evict them, so an
	 * equal rule must get the same id whenever it is asked for. */
	int (*rule)(void *context, const struct cfi_rule *rule, uint32_t *id);
	/* Receives each FDE, in the order of the section. */
	int (*fde)(void *context, const struct cfi_fde *fde);
};

/* What parsing one section may cost. Instructions are those of CFA programs, including those of a
 * CIE each time that it is run. */
struct cfi_budget {
	uint64_t fdes, rows, instructions;
};

#endif
