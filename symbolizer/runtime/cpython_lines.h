/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the line tables of CPython's code objects. */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_LINES_H
#define SYMBOLIZER_RUNTIME_CPYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/runtime/cpython_image.h"

/*
 * Returns the line number at `position` of a code object that starts at `first_line`. The position
 * is f_lasti in 3.6 - 3.10 (3.10 counts instructions of 2 bytes, the others bytes), and from 3.11
 * on the offset in bytes from co_code_adaptive. A negative position is the function's first line.
 * Returns 0 if the table assigns no line to this position. `table` may contain any bytes.
 */
uint32_t cpython_line_find(enum cpython_line_format format, const uint8_t *table, size_t length,
			   uint32_t first_line, int32_t position);

#endif
