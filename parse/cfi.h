/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information: turns .eh_frame and .debug_frame into rows "from this address on, the
 * caller is found by this rule". Formats: DWARF 5 section 6.4, LSB 5.0 section 10.6 (.eh_frame),
 * and the x86-64 psABI for register numbers. Pure. Every loop is bounded by the bytes that are
 * present and by the budget.
 */
#ifndef PARSE_CFI_H
#define PARSE_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_window.h"

/* How the canonical frame address (CFA) is found. */
enum cfi_cfa_kind {
	CFI_CFA_UNKNOWN,  /* an expression of no form below, or a register that does not exist */
	CFI_CFA_REGISTER, /* register + cfa_offset */
	CFI_CFA_DEREF,	  /* *(register + cfa_offset) + cfa_add: DW_OP_bregN x, DW_OP_deref [,
			     DW_OP_plus_uconst y] */
	CFI_CFA_PLT, /* rsp + 8 + ((rip & 15) >= threshold ? 8 : 0), as linkers write it for lazy
			PLTs: cfa_add is the threshold, cfa_offset the constant 8 */
	CFI_CFA_FRAME_POINTER, /* nothing is known, but rbp may be a frame pointer. Only code_flow.h
				  makes it */
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

/* A section to be parsed. */
struct cfi_section {
	struct elf_window *window; /* its bytes */
	uint64_t vaddr;		   /* its virtual address: the base of pc-relative pointers */
	uint64_t text_vaddr;	   /* the base of DW_EH_PE_textrel, 0 if unknown */
	uint64_t data_vaddr;	   /* the base of DW_EH_PE_datarel (.got), 0 if unknown */
	bool debug_frame;	   /* the format is that of .debug_frame, not of .eh_frame */
};

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
	/* Is an FDE of interest? The programs of others are not run. NULL: all are. */
	bool (*want)(void *context, uint64_t start, uint64_t end);
	/* Assigns an id below UINT32_MAX to a rule. The parser caches ids but may evict them, so an
	 * equal rule must get the same id whenever it is asked for. */
	int (*rule)(void *context, const struct cfi_rule *rule, uint32_t *id);
	/* Receives each FDE, in the order of the section. */
	int (*fde)(void *context, const struct cfi_fde *fde);
};

struct cfi_stats {
	uint64_t fdes, rows;
	uint64_t bad_fdes; /* skipped: malformed, or with a CIE that cannot be used */
	bool truncated;	   /* the section ended inside an entry, or the budget was used up */
};

/* What parsing one section may cost. Instructions are those of CFA programs, including those of a
 * CIE each time that it is run. */
struct cfi_budget {
	uint64_t fdes, rows, instructions;
};

/* Parses a section. A malformed FDE is skipped by its length. Where bytes cannot be read, the
 * section is taken to end. 0; -E2BIG: the budget is used up, and what came before was delivered;
 * -ENOMEM; or the sink's error. `stats` is always filled in. */
int cfi_parse(const struct cfi_section *section, const struct cfi_budget *budget,
	      const struct cfi_sink *sink, struct cfi_stats *stats);

/* Read the address range of the one FDE that starts `offset` bytes into the section. Reads at most
 * 2 KiB, allocates nothing and runs no CFA program. Returns 0; -EBADMSG if no usable FDE starts
 * there or its range is empty; or the error of the section's source. */
int cfi_read_range(const struct cfi_section *section, uint64_t offset, uint64_t *start,
		   uint64_t *end);

#endif
