/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives unwind rows from machine code that has no call frame information: a C library that was
 * built without (musl), hand-written assembly. x86-64. Pure. See code_flow.c for how this works.
 */
#ifndef PARSE_CODE_FLOW_H
#define PARSE_CODE_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/cfi_types.h"

/* A contiguous region of machine code: a gap in the unwind tables of a file, or a part of it. */
struct code_region {
	const uint8_t *bytes;
	size_t length;
	uint64_t vaddr; /* the virtual address of the first byte */
	/* Virtual addresses where functions are known to start, in ascending order. Those outside
	 * of the region are ignored. */
	const uint64_t *entries;
	size_t entry_count;
	uint64_t outermost; /* where the program is entered: the function there has no caller */
};

/* Follows the code in the regions of one file. The results go to the sink, as with cfi_parse().
 * Making one returns 0 or -ENOMEM. */
struct code_flow;
int code_flow_new(struct code_flow **flow, const struct cfi_sink *sink);
void code_flow_free(struct code_flow *flow);

/* Parses a region of less than 4 GiB. Functions are delivered as one FDE until 16 bytes in a row
 * are not code. Returns 0; the sink's error; or -ENOMEM. */
int code_flow_parse(struct code_flow *flow, const struct code_region *region);

#endif
