/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_split.h"

#include <dwarf.h>
#include <string.h>

enum {
	INDEX_HEADER_BYTES = 16,
	COLUMNS_MAX = 16, /* DWARF 5 has 8 */
	/* A table is at most two thirds full, so the next free slot is near. */
	PROBES_MAX = 4096,
	/* Before the tables of a unit in DWARF 5: its length, version and padding, and for lists of
	 * ranges the number of offsets, too. The length takes 8 bytes more in the 64-bit format. */
	STR_OFFSETS_HEADER_BYTES = 8,
	RNGLISTS_HEADER_BYTES = 12,
	FORMAT_64_BYTES = 8,
};

/* Where the parts of a unit start in the sections of the file. */
struct parts {
	uint64_t info, abbrev, str_offsets, rnglists;
};

/* The index of a package. */
struct cu_index {
	uint16_t version;
	uint32_t columns, units, slots;
	uint32_t kinds[COLUMNS_MAX]; /* DW_SECT_* */
};

static bool index_read(struct dwarf_reader *reader, struct cu_index *index)
{
	uint8_t bytes[INDEX_HEADER_BYTES];

	if (!dwarf_read(reader, DWARF_CU_INDEX, 0, bytes, sizeof(bytes)))
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	/* Two bytes in DWARF 5, with two of padding, and four before. */
	index->version = (uint16_t)cursor_u32(&c);
	index->columns = cursor_u32(&c);
	index->units = cursor_u32(&c);
	index->slots = cursor_u32(&c);
	return (index->version == 2 || index->version == 5) && index->columns <= COLUMNS_MAX &&
	       index->slots && !(index->slots & (index->slots - 1)) &&
	       dwarf_read(reader, DWARF_CU_INDEX, INDEX_HEADER_BYTES + 12ull * index->slots,
			  index->kinds, index->columns * sizeof(index->kinds[0]));
}

/* Finds the row of a unit, from 1 on. Returns 0 if there is none. */
static uint64_t index_find_row(struct dwarf_reader *reader, const struct cu_index *index,
			       uint64_t dwo_id)
{
	const uint64_t mask = index->slots - 1, step = (dwo_id >> 32 & mask) | 1;
	const uint64_t rows = INDEX_HEADER_BYTES + 8ull * index->slots;
	uint64_t slot = dwo_id & mask, found, row;

	for (uint32_t i = 0; i < PROBES_MAX; i++, slot = (slot + step) & mask) {
		if (!dwarf_read_indexed(reader, DWARF_CU_INDEX, INDEX_HEADER_BYTES, slot, 8,
					&found) ||
		    !dwarf_read_indexed(reader, DWARF_CU_INDEX, rows, slot, 4, &row) || !row)
			return 0;
		if (found == dwo_id)
			return row <= index->units ? row : 0;
	}
	return 0;
}

static bool parts_of_package(struct dwarf_reader *reader, uint64_t dwo_id, struct parts *parts)
{
	struct cu_index index;
	uint32_t offsets[COLUMNS_MAX];

	if (!index_read(reader, &index))
		return false;
	const uint64_t row = index_find_row(reader, &index, dwo_id);
	const uint64_t row_bytes = index.columns * sizeof(offsets[0]);
	/* The kinds of the columns are the first row of this table. */
	if (!row || !dwarf_read(reader, DWARF_CU_INDEX,
				INDEX_HEADER_BYTES + 12ull * index.slots + row * row_bytes, offsets,
				(size_t)row_bytes))
		return false;
	for (uint32_t i = 0; i < index.columns; i++) {
		switch (index.kinds[i]) {
		case DW_SECT_INFO:
			parts->info = offsets[i];
			break;
		case DW_SECT_ABBREV:
			parts->abbrev = offsets[i];
			break;
		case DW_SECT_STR_OFFSETS:
			parts->str_offsets = offsets[i];
			break;
		case DW_SECT_RNGLISTS:
			/* Version 2 has another section there, which is not needed. */
			parts->rnglists = offsets[i];
			break;
		default:
			break;
		}
	}
	return true;
}

/* Finds the unit in a file with few of them. Before DWARF 5, the number is in the first entry, and
 * there is one unit. */
static bool find_in_file(struct dwarf_reader *reader, const struct dwarf_unit *skeleton,
			 struct dwarf_unit *unit)
{
	for (uint64_t at = 0; dwarf_unit_read(reader, at, unit); at = unit->end) {
		if (unit->encoding.version < 5 ||
		    (unit->type == DW_UT_split_compile && unit->dwo_id == skeleton->dwo_id))
			return true;
	}
	return false;
}

bool dwarf_split_find(struct dwarf_reader *reader, const struct dwarf_unit *skeleton,
		      struct dwarf_unit *unit)
{
	const bool is_package = reader->file->sections[DWARF_CU_INDEX].size > 0;
	struct parts parts = {0};

	if (is_package ? !parts_of_package(reader, skeleton->dwo_id, &parts) ||
			     !dwarf_unit_read(reader, parts.info, unit)
		       : !find_in_file(reader, skeleton, unit))
		return false;
	const uint64_t more = unit->encoding.offset_bytes == 8 ? FORMAT_64_BYTES : 0;
	const bool has_headers = unit->encoding.version >= 5;

	unit->is_split = true;
	unit->abbrevs += parts.abbrev;
	unit->encoding.str_offsets_base =
	    parts.str_offsets + (has_headers ? STR_OFFSETS_HEADER_BYTES + more : 0);
	unit->encoding.addr_base = skeleton->encoding.addr_base;
	unit->base = skeleton->base;
	unit->ranges_base = skeleton->root.values[DWARF_RANGES_BASE].number;
	unit->rnglists_base = parts.rnglists + RNGLISTS_HEADER_BYTES + more;
	return true;
}
