/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the FDE that code_flow.c is making. Internal to code_flow.c. */
#ifndef PARSE_CODE_ROWS_H
#define PARSE_CODE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "parse/cfi_types.h"

/* All zeros but for the sink is empty. The memory is reused for the next FDE. */
struct code_rows {
	const struct cfi_sink *sink;
	struct cfi_row *rows;
	size_t count, capacity;
};

/* Adds a row, unless the last one has the same rule. Returns 0 or -ENOMEM. */
int code_rows_add(struct code_rows *rows, uint32_t at, uint32_t rule);

/* Delivers the rows as the FDE of the code from `start` to `end` (virtual addresses), if there are
 * any and the sink wants them, and removes them. Returns 0, or the sink's error. */
int code_rows_deliver(struct code_rows *rows, uint64_t start, uint64_t end);

void code_rows_fini(struct code_rows *rows);

#endif
