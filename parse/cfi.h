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

#include "parse/cfi_types.h"
#include "parse/elf_window.h"

/* A section to be parsed. */
struct cfi_section {
	struct elf_window *window; /* its bytes */
	uint64_t vaddr;		   /* its virtual address: the base of pc-relative pointers */
	uint64_t text_vaddr;	   /* the base of DW_EH_PE_textrel, 0 if unknown */
	uint64_t data_vaddr;	   /* the base of DW_EH_PE_datarel (.got), 0 if unknown */
	bool debug_frame;	   /* the format is that of .debug_frame, not of .eh_frame */
};

struct cfi_stats {
	uint64_t fdes, rows;
	uint64_t bad_fdes; /* skipped: malformed, or with a CIE that cannot be used */
	bool truncated;	   /* the section ended inside an entry, or the budget was used up */
};

/* Parses a section. A malformed FDE is skipped by its length. Where bytes cannot be read, the
 * section is taken to end. Returns 0; -E2BIG: the budget is used up, and what came before was
 * delivered; -ENOMEM; or the sink's error. `stats` is always filled in. */
int cfi_parse(const struct cfi_section *section, const struct cfi_budget *budget,
	      const struct cfi_sink *sink, struct cfi_stats *stats);

/* Receives the address range of an FDE. Returns 0, or a negative errno other than -EBADMSG, which
 * ends the visit. */
typedef int cfi_visit_range(void *context, uint64_t start, uint64_t end);

/* Visits the address ranges of a section's FDEs, at most `fdes_max`, in the order of the section.
 * No CFA program is run. Malformed FDEs are skipped, and where bytes cannot be read, the section is
 * taken to end. Returns 0; -E2BIG: there are more FDEs; -ENOMEM; or the visitor's error. */
int cfi_visit_ranges(const struct cfi_section *section, uint64_t fdes_max, cfi_visit_range *visit,
		     void *context);

/* Reads the address range of the one FDE that starts `offset` bytes into the section. Reads at most
 * 2 KiB, allocates nothing and runs no CFA program. Returns 0; -EBADMSG if no usable FDE starts
 * there or its range is empty; or the error of the section's source. */
int cfi_read_range(const struct cfi_section *section, uint64_t offset, uint64_t *start,
		   uint64_t *end);

#endif
