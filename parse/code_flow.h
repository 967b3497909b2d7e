/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for code that no call frame information describes, from its instructions: functions of a C
 * library that was built without (musl), hand-written assembly. Every way through the code is
 * followed once from each function's begin on, so the work is linear in its bytes; where two ways
 * meet, the first one counts. x86-64. Pure.
 */
#ifndef PARSE_CODE_FLOW_H
#define PARSE_CODE_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/cfi.h"

struct code_stretch {
	const uint8_t *bytes;
	size_t length;
	uint64_t vaddr; /* as linked */
	/* Virtual addresses where functions are known to begin, ascending; those outside count for
	 * nothing. What none of them leads to is taken for functions as well. */
	const uint64_t *entries;
	size_t entry_count;
	uint64_t outermost; /* of the function that has no caller: where the program is entered */
};

/* For the stretches of one file, told to the sink as cfi_parse() does. 0 or -ENOMEM. */
struct code_flow;
int code_flow_new(struct code_flow **flow, const struct cfi_sink *sink);
void code_flow_free(struct code_flow *flow);

/* Tell of the functions of a stretch of less than 4 GiB; an "FDE" is as much of it as lies without
 * a hole of 16 bytes. 0, what the sink returned, or -ENOMEM. */
int code_flow_parse(struct code_flow *flow, const struct code_stretch *stretch);

#endif
