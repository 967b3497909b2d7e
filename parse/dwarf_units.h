/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of the units of a file: which of them has the code at an address, and which of them an
 * offset in .debug_info is in.
 *
 * How this works. The units follow each other in .debug_info. The first entry of each has the
 * addresses of its code, so the index is made from the headers and first entries alone: 12 bytes
 * for each range of code, and 8 for each unit. (.debug_aranges says the same, but clang does not
 * write it.) A file with hundreds of megabytes of debug information has some 20,000 units. So the
 * index is built in parts, each of them as large as the reader's account allows.
 */
#ifndef PARSE_DWARF_UNITS_H
#define PARSE_DWARF_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/dwarf_unit.h"

struct dwarf_unit_range {
	uint32_t start, length; /* from the start of the file's code */
	uint32_t unit;		/* index in `offsets` */
};

struct dwarf_units {
	uint64_t *offsets;		 /* of units, in .debug_info, ascending */
	struct dwarf_unit_range *ranges; /* sorted by start */
	size_t count, capacity, range_count, range_capacity;
	uint64_t at; /* the next unit to read */
	bool complete;
};

/* Reads units until all are read or the reader's account is used up, which units->complete tells.
 * Malformed units end the index. Returns 0; -E2BIG: there are too many; or -ENOMEM. */
int dwarf_units_read(struct dwarf_units *units, struct dwarf_reader *reader);
void dwarf_units_free(struct dwarf_units *units);
size_t dwarf_units_bytes(const struct dwarf_units *units);

/* Finds the offset of the unit with the code at an address, in a complete index. */
bool dwarf_units_find_code(const struct dwarf_units *units, const struct dwarf_file *file,
			   uint64_t vaddr, uint64_t *offset);

/* Finds the offset of the unit that an offset in .debug_info is in. */
bool dwarf_units_find_offset(const struct dwarf_units *units, uint64_t inside, uint64_t *offset);

#endif
