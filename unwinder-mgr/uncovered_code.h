/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for the code of a file that its call frame information leaves out: a whole C library (musl),
 * a function in assembly, or what a compiler starts a program with.
 *
 * How this works. The executable sections of a file are compared with the ranges that are already
 * described. What lies between two ranges is a gap. Gaps are first counted and then analysed by
 * parse/code_flow.h, which follows the instructions of each function and derives its rows. Large
 * gaps are analysed in regions that start and end at a function, so that the memory needed stays
 * small. Functions are found by symbols and relocations where there is more than start-up code.
 *
 * Example: .text is 0x1000 to 0x5000, and the ranges are 0x1000 to 0x2000 and 0x2008 to 0x4000.
 *
 *	0x2000 to 0x2008  8 bytes: alignment, part of the function before it, no gap
 *	0x4000 to 0x5000  4096 bytes: a gap, whose functions are analysed
 *
 * Go programs are left out: go_code.h has the rows of their functions.
 */
#ifndef UNWINDER_MGR_UNCOVERED_CODE_H
#define UNWINDER_MGR_UNCOVERED_CODE_H

#include "parse/cfi.h"
#include "parse/elf_image.h"
#include "unwinder-mgr/unwind_ranges.h"

/* Reports the rows of all functions in executable sections of the file that lie in none of the
 * ranges. The ranges are ascending and do not overlap; the sink may append to them. Nothing is
 * reported of a Go program, or if there is more than LIMIT_CODE_BYTES of such code. Returns 0, what
 * the sink returned if that was not 0, or -ENOMEM. */
int uncovered_code_read(const struct elf_image *image, const struct unwind_ranges *ranges,
			const struct cfi_sink *sink);

#endif
