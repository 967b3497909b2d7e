/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter of CFA programs (DWARF 5 section 6.4.2), and the rows that they leave. Internal
 * to cfi*.c. */
#ifndef PARSE_CFI_PROGRAM_H
#define PARSE_CFI_PROGRAM_H

#include "parse/cfi_encoding.h"
#include "parse/cfi_shapes.h"

enum {
	CFI_REMEMBERED_MAX = 16, /* compilers nest two or three deep */
};

/* What FDEs have of their CIE. */
struct cfi_cie {
	uint32_t code_align; /* at most UINT32_MAX: no function has room for such a step */
	int64_t data_align;
	uint64_t initial; /* the state at its end, as a brief (cfi_shapes.h) */
	struct cfi_pointers pointers;
	uint8_t selector_bytes;
	bool augmented; /* 'z': its FDEs have augmentation data */
	bool signal_frame;
};

/* The rows of one FDE; the memory is used again for the next. */
struct cfi_rows {
	struct cfi_row *rows;
	size_t count, allocated;
	struct cfi_row *end; /* no row from here on: the end of the memory, or of the budget */
};

int cfi_rows_init(struct cfi_rows *rows);
void cfi_rows_fini(struct cfi_rows *rows);

/* One run: what is the same for all of it, and what is seldom touched. */
struct cfi_program {
	struct cfi_shapes *shapes;
	struct cfi_rows *rows;
	struct cfi_budget *left; /* of its rows nothing is taken yet */
	const struct cfi_cie *cie;
	uint64_t code_vaddr; /* of the code's base */
	uint64_t start;	     /* of the function; 0 for a CIE's own program */
	uint64_t size;	     /* of the function, at most UINT32_MAX; 0 for a CIE's */
	uint64_t end_state;  /* out: the state at the end, as a brief */
	unsigned int remembered_count;
	uint64_t remembered[CFI_REMEMBERED_MAX]; /* briefs */
};

/* Run from the CIE's initial state on, a function's program into `rows`. 0, -EBADMSG, -E2BIG
 * (budget), -ENOMEM, or an error of the sink's. */
int cfi_program_run(struct cfi_program *program, const struct cursor *code);

#endif
