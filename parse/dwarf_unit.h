/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units of DWARF debug information, and their entries. DWARF 4 and 5 (also 2 and 3), 32-bit and
 * 64-bit format; DWARF 5, 7.5.
 *
 * How this works. A unit is what the compiler made of one source file: a tree of entries, in the
 * order of a walk that visits children before siblings. An entry has a tag (a function, an inlined
 * call, a type) and attributes (a name, addresses). To save space it starts with the number of an
 * abbreviation, which gives tag and attributes with the form of each. Only the values are in the
 * entry. So the abbreviations are read first. Of the values, those in enum dwarf_attribute are
 * kept, and all others are skipped. Most entries are of variables, types and calls, of which only
 * the place of the sibling is of use.
 *
 * Example: a function add(), without children.
 *
 *	.debug_abbrev   7: DW_TAG_subprogram, no children, {DW_AT_name, DW_FORM_strp},
 *	                   {DW_AT_low_pc, DW_FORM_addr}, {DW_AT_high_pc, DW_FORM_data4}
 *	.debug_info     07  2c 01 00 00  40 11 00 00 00 00 00 00  1a 00 00 00
 *	.debug_str      at 0x12c: "add"
 *
 * The entry has the tag DW_TAG_subprogram, and the values DWARF_NAME = {DW_FORM_strp, 0x12c},
 * DWARF_LOW_PC = {DW_FORM_addr, 0x1140} and DWARF_HIGH_PC = {DW_FORM_data4, 0x1a}.
 */
#ifndef PARSE_DWARF_UNIT_H
#define PARSE_DWARF_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/dwarf_value.h"

/* The attributes that are kept. */
enum dwarf_attribute {
	DWARF_LOW_PC,
	DWARF_HIGH_PC,
	DWARF_RANGE_LIST, /* DW_AT_ranges */
	DWARF_NAME,
	DWARF_LINKAGE_NAME,
	DWARF_ORIGIN, /* DW_AT_abstract_origin, or else DW_AT_specification */
	DWARF_SIBLING,
	DWARF_CALL_FILE,
	DWARF_CALL_LINE,
	DWARF_DECL_LINE,
	DWARF_STMT_LIST,
	DWARF_COMP_DIR,
	DWARF_STR_OFFSETS_BASE,
	DWARF_ADDR_BASE,
	DWARF_RNGLISTS_BASE,
	DWARF_RANGES_BASE, /* DW_AT_GNU_ranges_base */
	DWARF_DWO_NAME,
	DWARF_DWO_ID, /* DW_AT_GNU_dwo_id */
	DWARF_ATTRIBUTE_COUNT,
};

struct dwarf_entry {
	uint64_t offset; /* in .debug_info */
	uint64_t next;	 /* the offset of what follows it: its first child, if it has children */
	uint16_t tag;	 /* DW_TAG_*; 0: the end of a list of children */
	bool has_children;
	struct dwarf_value values[DWARF_ATTRIBUTE_COUNT];
};

/* What entries are read for. */
enum dwarf_use {
	/* Functions with code, inlined ones, and entries that say where their sibling is. */
	DWARF_FOR_FUNCTIONS = 1 << 0,
	/* Inlined calls, entries with children, and the ends of children. */
	DWARF_FOR_CALLS = 1 << 1,
};

struct dwarf_abbrev {
	uint64_t code;
	uint16_t tag;
	bool has_children;
	uint8_t uses;	       /* enum dwarf_use */
	uint32_t first, count; /* its parts, in dwarf_abbrevs.parts */
	uint32_t bytes;	       /* of all values; DWARF_BYTES_VARY: entries differ */
};

#define DWARF_BYTES_VARY UINT32_MAX

/* A part of an entry: the value of an attribute, or what lies between two values that are kept. */
struct dwarf_abbrev_part {
	uint16_t form;	  /* of the value; 0: this many bytes are skipped: `constant` */
	uint8_t kept;	  /* enum dwarf_attribute, or DWARF_ATTRIBUTE_COUNT */
	int8_t bytes;	  /* dwarf_form_bytes() */
	int64_t constant; /* also of DW_FORM_implicit_const */
};

/* The abbreviations of a unit, sorted by their codes. */
struct dwarf_abbrevs {
	struct dwarf_abbrev *items;
	struct dwarf_abbrev_part *parts;
	size_t count, part_count, capacity, part_capacity;
};

struct dwarf_unit {
	uint64_t offset, end; /* of its header, and where it ends, in .debug_info */
	uint64_t entries;     /* where its first entry is */
	uint64_t abbrevs;     /* in .debug_abbrev */
	uint64_t root_code;   /* of the abbreviation of its first entry; 0: it has no entry */
	uint8_t type;	      /* DW_UT_*; DW_UT_compile before DWARF 5 */
	struct dwarf_encoding encoding;
	/* From its first entry. */
	struct dwarf_entry root;
	/* Identifies what another file has of the unit (dwarf_split.h); 0: nothing. */
	uint64_t dwo_id;
	/* From its first entry or, for a unit of a split file, from elsewhere (dwarf_split.h), as
	 * is encoding.*_base. */
	bool is_split;
	uint64_t base;	      /* of its ranges: its lowest address */
	uint64_t ranges_base; /* that offsets in .debug_ranges are relative to */
	uint64_t rnglists_base;
};

/* Reads the header at `offset`. Returns false if it is malformed or of an unknown version. */
bool dwarf_unit_read(struct dwarf_reader *reader, uint64_t offset, struct dwarf_unit *unit);

/* Reads the first entry of a unit, and what the unit has from there. `abbrevs` has at least the
 * abbreviation of this entry. */
bool dwarf_unit_read_root(struct dwarf_reader *reader, struct dwarf_unit *unit,
			  const struct dwarf_abbrevs *abbrevs);

/* Reads the abbreviations of a unit. Returns 0; -EBADMSG: they are malformed or too many; or
 * -ENOMEM. The caller frees them in each case. */
int dwarf_abbrevs_read(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		       struct dwarf_abbrevs *abbrevs);

/* The same for the abbreviation of the unit's first entry alone. If there is no such abbreviation,
 * none is read. */
int dwarf_abbrevs_read_root(struct dwarf_reader *reader, const struct dwarf_unit *unit,
			    struct dwarf_abbrevs *abbrevs);
void dwarf_abbrevs_free(struct dwarf_abbrevs *abbrevs);

/* Returns the memory that they take, in bytes. */
size_t dwarf_abbrevs_bytes(const struct dwarf_abbrevs *abbrevs);

/* Makes a window over .debug_info up to the end of the unit, whose offsets are those in
 * .debug_info. It reads `step` bytes at once. */
void dwarf_unit_window(struct dwarf_reader *reader, const struct dwarf_unit *unit, size_t step,
		       struct elf_window *info);

/* Reads the entry at an offset of .debug_info, which must be in the unit. `info` is a window over
 * .debug_info. Returns false if it is malformed, or cannot be read. */
bool dwarf_entry_read(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, struct elf_window *info, uint64_t offset,
		      struct dwarf_entry *entry);

/* Reads an entry at `offset` or after it, and passes over entries that are of no use. The one that
 * was read may be of no use, too: passing over ends where the window ends. */
bool dwarf_entry_find(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, struct elf_window *info, uint64_t offset,
		      enum dwarf_use use, struct dwarf_entry *entry);

/* Returns where the next entry that is not below this one is, if the entry says that or has no
 * children; otherwise where the next entry is. */
uint64_t dwarf_entry_skip(const struct dwarf_unit *unit, const struct dwarf_entry *entry);

#endif
