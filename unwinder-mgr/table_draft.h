/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module's call frame information, and what the code says that it leaves out, as rows in this
 * process's own memory, until they are placed in slabs. A large module has a million of them, and
 * fresh memory costs more than computing what is written there: so a row is four bytes, and rows
 * stay where they were written; what is sorted is runs of them, of which there are a few thousand.
 */
#ifndef UNWINDER_MGR_TABLE_DRAFT_H
#define UNWINDER_MGR_TABLE_DRAFT_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"
#include "unwinder-mgr/rules.h"

/* So many bytes behind the row before (0: at the begin of its run), this rule. */
struct table_row {
	uint16_t advance, rule;
};

/* Functions one behind the other, without a gap in which another would have room. */
struct table_run {
	uint32_t start, end; /* file offsets */
	uint32_t first_row, row_count;
};

/*
 * A hole between two functions is part of the one before it: alignment is never run, and what else
 * is that small is code whose description ends too early on purpose, such as glibc's clone and
 * clone3, from their system call to their return (the child would be described wrongly).
 */
enum {
	TABLE_HOLE_BYTES = 16, /* the first size that is more than that */
};

struct table_draft {
	struct table_row *rows;
	size_t row_count, row_capacity;
	struct table_run *runs; /* once drafted: ascending, none over another */
	size_t run_count, run_capacity;
	uint16_t *rules; /* those that the draft holds a use of */
	size_t rule_count, rule_capacity;
	uint64_t bad_fdes;
};

/* Read the file's .eh_frame (found by section, or through .eh_frame_hdr's program header) and
 * .debug_frame, and code of which they say nothing (code_holes.h). 0; -ENODATA: it has none that
 * says anything (frame pointers then); -ENOSPC: the rule table is full; -ENOMEM; -ENOEXEC. */
int table_draft(struct table_draft *draft, struct rules *rules, const struct elf_source *source);
void table_draft_fini(struct table_draft *draft, struct rules *rules, uint64_t now_ns);

/* The first of `count` runs, ascending and none over another, that ends behind the file offset;
 * `count` if none does. */
size_t table_runs_find(const struct table_run *runs, size_t count, uint64_t offset);

#endif
