/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of debug information that were used last, with what was read of them: abbreviations,
 * functions and lines.
 *
 * How this works. A lookup needs all of a unit, and the next one often needs the same unit again.
 * So units stay open until others need their memory. Then the one that was not used for the longest
 * time is stripped: it gives back what can be read again, or done without, in some ten
 * microseconds for each lookup, which is most of its memory. It keeps what takes a thousand: where
 * its functions and lines are. If stripped units take half of the memory, one of them is closed
 * instead. Neither happens to the unit of the present lookup, nor to the one that was used last: a
 * lookup has these two in hand, since the name of a function may be in another unit.
 *
 * Example: a program has 600 units of 100 KB each, and there is room for 120. After some lookups
 * everywhere in it, some sixty units are whole, and the others are stripped, with 10 KB each.
 */
#ifndef SYMBOLIZER_NAMER_DWARF_OPEN_UNITS_H
#define SYMBOLIZER_NAMER_DWARF_OPEN_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "parse/dwarf_functions.h"
#include "parse/dwarf_lines.h"

enum {
	DWARF_OPEN_LISTS = 509, /* a prime number */
};

struct dwarf_open_unit {
	/* The unit in the file that it was opened in. It has the lines. */
	const struct dwarf_file *own_file;
	struct dwarf_unit own;
	/* The unit with the entries: the same, or that of a split file. */
	const struct dwarf_file *file;
	struct dwarf_unit unit;
	bool lacks_split; /* its split file may still come */
	struct dwarf_abbrevs abbrevs;
	struct dwarf_functions functions;
	struct dwarf_lines lines;
	size_t bytes; /* of memory that it took when that was last counted */
	bool is_stripped;
	TAILQ_ENTRY(dwarf_open_unit) by_use; /* among those that are stripped, or not */
	LIST_ENTRY(dwarf_open_unit) in_list;
};

/* All zeros: none is open. */
struct dwarf_open_units {
	LIST_HEAD(, dwarf_open_unit) lists[DWARF_OPEN_LISTS]; /* by offset */
	/* The last one was used last. */
	TAILQ_HEAD(dwarf_units_by_use, dwarf_open_unit) whole, stripped;
	const struct dwarf_open_unit *present; /* of the present lookup; NULL: none */
	unsigned int count;
	/* Of memory that all of them take, and those that are stripped. */
	size_t bytes, stripped_bytes;
};

/* Returns the unit at an offset of the reader's file, which it opens if it is not open. Returns
 * NULL if it cannot be read. A unit that was stripped has no abbreviations. The unit is valid until
 * two others were used, or longer if it is that of the present lookup. */
struct dwarf_open_unit *dwarf_open_units_use(struct dwarf_open_units *units,
					     struct dwarf_reader *reader, uint64_t offset);

/* Counts the memory of a unit of which more was read, and closes others until all fit into the
 * limit. */
void dwarf_open_units_account(struct dwarf_open_units *units, struct dwarf_open_unit *unit);
void dwarf_open_units_free(struct dwarf_open_units *units);

#endif
