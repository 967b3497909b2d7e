/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the names of a unit's functions are, from entries that were read for another reason.
 *
 * How this works. The index of a unit's functions (dwarf_functions.h) takes a look at all of their
 * entries, one after the other. An inlined call refers to one of these entries, which may be
 * anywhere in the unit, so that each further name takes a read from the file, and more of them if
 * the entry has no name but refers to another one. What an entry says of its name is therefore
 * kept, in 16 bytes. It is enough for most: one text or one reference, and a line.
 *
 * Example: the entry at 0x41c2 has the name "add" at 0x8f in .debug_str and the line 9. Its source
 * {0x41c2, 9, 0x8f, DW_FORM_strp, DWARF_NAME} makes an entry with these two values again.
 */
#ifndef PARSE_DWARF_NAME_SOURCES_H
#define PARSE_DWARF_NAME_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/dwarf_unit.h"

struct dwarf_name_source {
	uint32_t entry;	   /* from the start of the unit */
	uint32_t line;	   /* DW_AT_decl_line; 0: there is none */
	uint32_t number;   /* the value of the attribute that leads to the name */
	uint16_t form;	   /* of this value */
	uint8_t attribute; /* DWARF_LINKAGE_NAME, DWARF_NAME or DWARF_ORIGIN */
};

/* All zeros: there is none. */
struct dwarf_name_sources {
	struct dwarf_name_source *items; /* sorted by entry */
	size_t count, capacity;
};

/* Keeps what an entry of the unit says of its name, unless that is too much, memory is short, or
 * an entry after it was kept. */
void dwarf_name_sources_add(struct dwarf_name_sources *sources, const struct dwarf_unit *unit,
			    const struct dwarf_entry *entry);

/* Finds what was kept of the entry at an offset of .debug_info, as an entry of a function that has
 * nothing else. Returns false, with `entry` unchanged, if there is nothing. */
bool dwarf_name_sources_find(const struct dwarf_name_sources *sources,
			     const struct dwarf_unit *unit, uint64_t offset,
			     struct dwarf_entry *entry);
void dwarf_name_sources_free(struct dwarf_name_sources *sources);

#endif
