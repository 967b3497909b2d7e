/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information: .eh_frame and .debug_frame turned into rows "from this address on, this
 * is how the caller is found". Pure; every loop is bounded by the bytes present and by the budget
 * given. Formats: DWARF 5 section 6.4, LSB 5.0 section 10.6 (.eh_frame), the x86-64 psABI for
 * register numbers.
 */
#ifndef PARSE_CFI_H
#define PARSE_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_window.h"

/* How the canonical frame address is found. */
enum cfi_cfa_kind {
	CFI_CFA_UNKNOWN,  /* an expression of no kind below, or registers that do not exist */
	CFI_CFA_REGISTER, /* register + cfa_offset */
	CFI_CFA_DEREF,	  /* *(register + cfa_offset) + cfa_add: DW_OP_bregN x, DW_OP_deref [,
			     DW_OP_plus_uconst y] */
	CFI_CFA_PLT, /* rsp + 8 + ((rip & 15) >= plt_threshold ? 8 : 0), as linkers write it for
			lazy PLTs: cfa_add is the threshold, cfa_offset the constant 8 */
	CFI_CFA_FRAME_POINTER, /* nothing is known: rbp may be a frame pointer. Of code_flow.h alone
				*/
};

/* How a saved register (frame pointer, return address) is found. */
enum cfi_save_kind {
	CFI_SAVE_SAME,	      /* unchanged (for the return address: x86-64 never) */
	CFI_SAVE_CFA,	      /* at *(CFA + offset) */
	CFI_SAVE_REGISTER,    /* at *(save register + offset): DW_CFA_expression with DW_OP_bregN */
	CFI_SAVE_UNDEFINED,   /* for the return address: the outermost frame */
	CFI_SAVE_IN_REGISTER, /* the value is in save register: DW_CFA_register (vfork keeps its
				 return address so) */
	CFI_SAVE_UNKNOWN,     /* an expression, or a value that is not in memory */
};

/* All fields are zero where a kind does not use them, so that two rules can be compared with
 * memcmp. DWARF register numbers: 3 is rbx (base of some frames in hand-written code, ld.so's
 * resolver among them), 6 rbp, 7 rsp, 16 the return address. */
struct cfi_rule {
	uint8_t cfa_kind;     /* enum cfi_cfa_kind */
	uint8_t cfa_register; /* DWARF number, 0..15 */
	uint8_t fp_kind;      /* enum cfi_save_kind, of rbp */
	uint8_t fp_register;  /* register for CFI_SAVE_REGISTER and _IN_REGISTER */
	uint8_t ra_kind;      /* enum cfi_save_kind */
	uint8_t ra_register;  /* register for CFI_SAVE_REGISTER and _IN_REGISTER */
	uint8_t
	    signal_frame; /* 1: augmentation 'S', the frame below it was interrupted, not called */
	uint8_t bx_kind;  /* enum cfi_save_kind, of rbx: SAME, CFA, or UNKNOWN for all others */
	int32_t cfa_offset;
	int32_t cfa_add;
	int32_t fp_offset;
	int32_t ra_offset;
	int32_t bx_offset;
	int32_t reserved;
};
_Static_assert(sizeof(struct cfi_rule) == 32, "compared as bytes");

struct cfi_section {
	struct elf_window *window; /* its bytes */
	uint64_t vaddr;		   /* as linked: base of pc-relative pointers */
	uint64_t text_vaddr;	   /* base of DW_EH_PE_textrel, 0 if unknown */
	uint64_t data_vaddr;	   /* base of DW_EH_PE_datarel (.got), 0 if unknown */
	bool debug_frame;	   /* .debug_frame rules instead of .eh_frame's */
};

/* From `at` bytes behind the begin of its function on, the rule of that number. */
struct cfi_row {
	uint32_t at, rule;
};

/* The rows of one FDE, ascending, the first at 0, no two neighbours with the same rule; the last
 * one holds until `end`. */
struct cfi_fde {
	uint64_t start, end; /* virtual addresses, start < end, less than 4 GiB apart */
	const struct cfi_row *rows;
	unsigned int row_count;
};

/* Who is told. An error (a negative errno, not -EBADMSG) ends the parse and is returned. */
struct cfi_sink {
	void *context;
	/* Whether an FDE is of interest; the programs of others are not run. NULL: all are. */
	bool (*want)(void *context, uint64_t start, uint64_t end);
	/* The number of a rule, below UINT32_MAX, the same whenever it is asked for: now and then
	 * the parser forgets. */
	int (*rule)(void *context, const struct cfi_rule *rule, uint32_t *number);
	/* Once an FDE, in the order of the section. */
	int (*fde)(void *context, const struct cfi_fde *fde);
};

struct cfi_stats {
	uint64_t fdes, rows;
	uint64_t bad_fdes; /* skipped: malformed, or of an unknown CIE */
	bool truncated;	   /* the section ended in the middle, or the budget did */
};

/* What one section may cost. Instructions are those of CFA programs, CIEs' included each time they
 * are run. */
struct cfi_budget {
	uint64_t fdes, rows, instructions;
};

/* Parse a whole section. A malformed FDE costs only itself wherever its length can be believed. 0,
 * what the sink returned, or -ENOMEM; -E2BIG if the budget ran out (what came before was
 * delivered). Bytes that cannot be read are an end in the middle. `stats` is always filled. */
int cfi_parse(const struct cfi_section *section, const struct cfi_budget *budget,
	      const struct cfi_sink *sink, struct cfi_stats *stats);

/* Read the address range of the one FDE that starts `offset` bytes into the section. Reads at most
 * 2 KiB, allocates nothing and runs no CFA program. Returns 0; -EBADMSG if no usable FDE starts
 * there or its range is empty; or the error of the section's source. */
int cfi_read_range(const struct cfi_section *section, uint64_t offset, uint64_t *start,
		   uint64_t *end);

#endif
