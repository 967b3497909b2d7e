/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a function that the compiler split off as unlikely (-freorder-blocks-and-partition;
 * the symbol NAME.cold, which stripped files lack). */
#ifndef SYMBOLIZER_RUNTIME_SPLIT_PART_H
#define SYMBOLIZER_RUNTIME_SPLIT_PART_H

#include "symbolizer/runtime/file.h"

/* Virtual addresses. */
struct split_part {
	uint64_t start, end;
};

/* Finds the split part of the function at `start`, whose code of `length` bytes the caller has
 * read. Returns whether there is one. */
bool split_part_find(const struct runtime_file *file, uint64_t start, const uint8_t *code,
		     size_t length, struct split_part *part);

#endif
