/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a file that unwind rows describe, while a module's table is being built. */
#ifndef UNWINDER_MGR_UNWIND_RANGES_H
#define UNWINDER_MGR_UNWIND_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "common/search.h"

/* Consecutive functions without a gap between them in which another function would have room. */
struct unwind_range {
	uint32_t start, end; /* file offsets; `end` is exclusive */
	uint32_t first_row, row_count;
};

struct unwind_ranges {
	struct unwind_range *items;
	size_t count, capacity;
};

/*
 * The smallest number of undescribed bytes between two functions that counts as a gap. Anything
 * smaller belongs to the function before it. It is either alignment, which never runs, or code
 * whose description ends too early on purpose: glibc's clone and clone3 leave out the instructions
 * from their system call to their return, because there the rules would be wrong in the child.
 */
enum {
	UNWIND_GAP_BYTES = 16,
};

/* Returns the index of the first range that ends after the file offset, or `count` if there is
 * none. The first `count` ranges must be ascending and must not overlap. */
static inline size_t unwind_ranges_find(const struct unwind_range *ranges, size_t count,
					uint64_t offset)
{
	return SEARCH_LOWER_BOUND(i, count, ranges[i].end <= offset);
}

#endif
