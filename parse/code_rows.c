/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/code_rows.h"

#include <stdlib.h>

#include "common/array.h"

enum {
	ROWS_INITIAL = 256,
};

int code_rows_add(struct code_rows *rows, uint32_t at, uint32_t rule)
{
	if (rows->count && rows->rows[rows->count - 1].rule == rule)
		return 0;
	int r = ARRAY_RESERVE(rows->rows, rows->capacity, rows->count + 1, ROWS_INITIAL,
			      ARRAY_UNLIMITED);
	if (!r)
		rows->rows[rows->count++] = (struct cfi_row){at, rule};
	return r;
}

int code_rows_deliver(struct code_rows *rows, uint64_t start, uint64_t end)
{
	const struct cfi_fde fde = {start, end, rows->rows, (unsigned int)rows->count};
	const struct cfi_sink *sink = rows->sink;

	rows->count = 0;
	if (!fde.row_count || (sink->want && !sink->want(sink->context, fde.start, fde.end)))
		return 0;
	return sink->fde(sink->context, &fde);
}

void code_rows_fini(struct code_rows *rows)
{
	free(rows->rows);
	rows->rows = NULL;
	rows->count = rows->capacity = 0;
}
