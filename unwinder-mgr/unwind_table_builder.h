/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a module's unwind rows in this process's own memory. tables.h then places them in the
 * slabs that BPF reads; in between, a module may have to wait for a slab.
 *
 * How this works. The rows come from three sources, each of which only describes what the sources
 * before it left out: .eh_frame, .debug_frame, and the machine code of functions that neither
 * mentions (uncovered_code.h). One row of the C library is from none of them (context_start.h). A
 * large module has a million rows, and touching fresh memory costs more than computing what is
 * written there. So a row is only four bytes, and rows stay where they were written. What gets
 * sorted is ranges of rows, of which there are a few thousand.
 *
 * Example: .eh_frame describes f at file offsets 0x1000 to 0x1010 and g at 0x1010 to 0x1020. Both
 * push the frame pointer with their first instruction, one byte long:
 *
 *	f and g: rule 1, "CFA = rsp + 8", at the entry; rule 2, "CFA = rsp + 16", after the push
 *	rows:    {+0, 1} {+1, 2} {+15, 1} {+1, 2}
 *	ranges:  {0x1000, 0x1020, rows 0 to 3}
 *
 * A function h at 0x4000 starts a second range. If h comes first in the file, the ranges are
 * sorted, and its rows stay where they are.
 */
#ifndef UNWINDER_MGR_UNWIND_TABLE_BUILDER_H
#define UNWINDER_MGR_UNWIND_TABLE_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"
#include "unwinder-mgr/rules.h"
#include "unwinder-mgr/unwind_ranges.h"

/* From `advance` bytes after the previous row on, `rule` applies. The first row of a range counts
 * from the start of the range. */
struct unwind_row {
	uint16_t advance, rule;
};

struct unwind_table_builder {
	struct unwind_row *rows;
	size_t row_count, row_capacity;
	struct unwind_ranges ranges; /* once built: ascending, without overlaps */
	uint16_t *rules;	     /* the ids of which this builder holds one use each */
	size_t rule_count, rule_capacity;
	uint32_t rules_added;	/* of them, those that no other module had */
	uint32_t rules_missing; /* that found no room: BH_RULE_ID_REFUSED is in their place */
	uint64_t bad_fdes;	/* descriptions that were skipped because they are malformed */
};

/* Reads the .eh_frame of a file (found by its section, or without section headers through the
 * program header of .eh_frame_hdr), its .debug_frame and its uncovered code. At most `rules_most`
 * rules are added to the table of rules; where there is no room for a rule, the stack will end.
 * Returns 0; -ENODATA if none of them describes anything, in which case frame pointers are used;
 * -ENOMEM; -ENOTSUP if it is an ELF file of 32 bits (i386, x32); or -ENOEXEC if it is no ELF file
 * that a process could map. On failure the builder is empty; otherwise the caller frees it with
 * unwind_table_builder_fini. */
int unwind_table_build(struct unwind_table_builder *builder, struct rules *rules,
		       uint32_t rules_most, const struct elf_source *source);

/* Frees the rows and gives back the rules. */
void unwind_table_builder_fini(struct unwind_table_builder *builder, struct rules *rules,
			       uint64_t now_ns);

#endif
