/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes of DWARF debug information, which their forms encode (DWARF 5, 7.5.6; the
 * GNU forms are those of gcc's -gsplit-dwarf before DWARF 5, and of dwz).
 *
 * A form says how the bytes of a value are read, and what the number means: itself, an address, the
 * offset of a string or of another entry, or an index in a table of those.
 *
 * Example: DW_FORM_strx1 with the byte 02 is the string whose offset in .debug_str is the third
 * number from str_offsets_base on in .debug_str_offsets.
 */
#ifndef PARSE_DWARF_VALUE_H
#define PARSE_DWARF_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cursor.h"
#include "parse/dwarf_file.h"

/* How the values of a unit are encoded, and where the tables are that they refer to. */
struct dwarf_encoding {
	uint16_t version;
	uint8_t address_bytes, offset_bytes;
	uint64_t unit; /* offset of the unit in .debug_info: references are relative to it */
	uint64_t str_offsets_base, addr_base;
};

/* The number of a DW_FORM_string is the offset of the string where the value was read. */
struct dwarf_value {
	uint16_t form; /* DW_FORM_*; 0: there is no value */
	uint64_t number;
};

/* Returns how many bytes a value of a form (DW_FORM_*) has in an entry; -1 if that is not fixed or
 * the form is unknown. */
int dwarf_form_bytes(const struct dwarf_encoding *encoding, uint64_t form);

/* Reads a number of 1, 2, 3, 4 or 8 bytes. Others are skipped, and the number is zero. */
uint64_t dwarf_number_read(struct cursor *c, unsigned int bytes);

/* Skips a value. Fails if the form is unknown. */
void dwarf_value_skip(struct cursor *c, const struct dwarf_encoding *encoding, uint64_t form);

/* Reads a value of the form value->form, which becomes another one if it is DW_FORM_indirect. For
 * DW_FORM_implicit_const, `value` has the number before. `start` is the offset in the section where
 * the cursor starts. */
void dwarf_value_read(struct cursor *c, const struct dwarf_encoding *encoding, uint64_t start,
		      struct dwarf_value *value);

/* Finds the string that a value is or refers to, for dwarf_read_text(). A DW_FORM_string is in the
 * section `own`. Returns false if there is none. */
bool dwarf_value_find_text(struct dwarf_reader *reader, const struct dwarf_encoding *encoding,
			   const struct dwarf_value *value, enum dwarf_section_kind own,
			   enum dwarf_section_kind *kind, uint64_t *offset);

/* Returns the virtual address that a value is or refers to. Returns false if it is none. */
bool dwarf_value_address(struct dwarf_reader *reader, const struct dwarf_encoding *encoding,
			 const struct dwarf_value *value, uint64_t *vaddr);

/* Returns the offset in .debug_info that a value refers to. Returns false if it is none, or is in
 * the alternate file. */
bool dwarf_value_reference(const struct dwarf_encoding *encoding, const struct dwarf_value *value,
			   uint64_t *offset);

/* Returns the offset in .debug_info of the alternate file that a value refers to. Returns false if
 * it is none. */
bool dwarf_value_alternate_reference(const struct dwarf_value *value, uint64_t *offset);

#endif
