/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses that an entry covers: DW_AT_low_pc and DW_AT_high_pc, or a list of ranges (DWARF 5,
 * 2.17.3 and 7.25, DWARF 4, 2.17.3).
 *
 * A function whose cold part was moved elsewhere has a list, and so has a unit with several
 * sections of code.
 */
#ifndef PARSE_DWARF_RANGES_H
#define PARSE_DWARF_RANGES_H

#include <stdint.h>

#include "parse/dwarf_unit.h"

/* Calls `visit` for each range [start, end) that is not empty and has code of the file: linkers
 * leave ranges of functions that they removed, with other addresses. Stops when it returns nonzero,
 * and returns that; 0 at the end, or where the list is malformed. */
int dwarf_ranges_each(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_entry *entry,
		      int (*visit)(void *context, uint64_t start, uint64_t end), void *context);

#endif
