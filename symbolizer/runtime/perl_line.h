/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a call in Perl. */
#ifndef SYMBOLIZER_RUNTIME_PERL_LINE_H
#define SYMBOLIZER_RUNTIME_PERL_LINE_H

#include "symbolizer/runtime/memory.h"
#include "symbolizer/runtime/perl_file.h"

/* Returns the line of the call at `place` (perl_place(), with its `base`), in the statement that
 * begins at `line`. It is `line` if there is no better one, or if that cannot be read. */
uint32_t perl_line_of_call(const struct perl_offsets *offsets, struct memory *memory, uint64_t base,
			   uint64_t place, uint32_t line);

#endif
