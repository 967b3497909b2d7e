/* SPDX-License-Identifier: Apache-2.0 */
/* Interprets CFA programs (DWARF 5 section 6.4.2) and collects the rows that they make. Internal to
 * cfi*.c. */
#ifndef PARSE_CFI_PROGRAM_H
#define PARSE_CFI_PROGRAM_H

#include "parse/cfi_encoding.h"
#include "parse/cfi_shapes.h"

enum {
	CFI_REMEMBERED_MAX = 16, /* DW_CFA_remember_state; compilers nest it two or three deep */
};

/* What FDEs use of their CIE. */
struct cfi_cie {
	uint32_t code_align; /* UINT32_MAX stands for all greater values */
	int64_t data_align;
	uint64_t initial; /* the state at the end of its program, as a handle (cfi_shapes.h) */
	struct cfi_pointers pointers;
	uint8_t selector_bytes;
	bool augmented; /* by 'z': its FDEs have augmentation data */
	bool signal_frame;
};

/* The rows of one FDE. The memory is reused for the next one. */
struct cfi_rows {
	struct cfi_row *rows;
	size_t count, allocated;
	struct cfi_row *end; /* the end of the memory or of the budget: write no row from here on */
};

int cfi_rows_init(struct cfi_rows *rows);
void cfi_rows_fini(struct cfi_rows *rows);

/* One run of a program: what does not change, and what is rarely used. */
struct cfi_program {
	struct cfi_shapes *shapes;
	struct cfi_rows *rows;
	struct cfi_budget *left; /* rows are subtracted by the caller, after the run */
	const struct cfi_cie *cie;
	uint64_t code_vaddr; /* the address of the base of the program's cursor */
	uint64_t start;	     /* of the function; 0 for the program of a CIE */
	uint64_t size;	     /* of the function, at most UINT32_MAX; 0 for the program of a CIE */
	uint64_t end_state;  /* set by the run: the state at the end, as a handle */
	unsigned int remembered_count;
	uint64_t remembered[CFI_REMEMBERED_MAX]; /* handles */
};

/* Runs a program from the CIE's initial state on; the rows of a function go to `rows`. Returns 0;
 * -EBADMSG: it is malformed; -E2BIG: the budget is used up; -ENOMEM; or the sink's error. */
int cfi_program_run(struct cfi_program *program, const struct cursor *code);

#endif
