/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_unit.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/search.h"

enum {
	/* Real units have up to some thousand abbreviations with ten attributes each. */
	ABBREVS_MAX = 1 << 16,
	ABBREV_PARTS_MAX = 1 << 18,
	/* Bytes that are enough for most entries, for nearly all, and more than any has: blocks and
	 * strings are inside it. */
	ENTRY_BYTES = 256,
	ENTRY_BYTES_LARGE = 2048,
	ENTRY_BYTES_MAX = 1 << 20,
	ENTRY_COST = 16,
	/* Entries are passed over while this is left, so that the next one can be read. */
	PASS_LEAST_COST = 1 << 16,
	HEADER_BYTES_MAX = 64,
	ABBREVS_STEP = 4096,
	ROOT_ABBREV_STEP = 512,
};

/* --- units --- */

static void header_read(struct cursor *c, struct dwarf_unit *unit)
{
	unit->encoding.version = cursor_u16(c);
	unit->type = DW_UT_compile;
	if (unit->encoding.version >= 5) {
		unit->type = cursor_u8(c);
		unit->encoding.address_bytes = cursor_u8(c);
	}
	unit->abbrevs = unit->encoding.offset_bytes == 8 ? cursor_u64(c) : cursor_u32(c);
	if (unit->encoding.version < 5)
		unit->encoding.address_bytes = cursor_u8(c);
	if (unit->type == DW_UT_skeleton || unit->type == DW_UT_split_compile)
		unit->dwo_id = cursor_u64(c);
	if (unit->type == DW_UT_type || unit->type == DW_UT_split_type) {
		cursor_u64(c); /* type_signature */
		cursor_skip(c, unit->encoding.offset_bytes);
	}
}

bool dwarf_unit_read(struct dwarf_reader *reader, uint64_t offset, struct dwarf_unit *unit)
{
	const uint64_t size = reader->file->sections[DWARF_INFO].size;
	uint8_t bytes[HEADER_BYTES_MAX] = {0};

	if (offset >= size)
		return false;
	const size_t room = size - offset < sizeof(bytes) ? (size_t)(size - offset) : sizeof(bytes);
	if (!dwarf_read(reader, DWARF_INFO, offset, bytes, room))
		return false;

	struct cursor c = cursor_init(bytes, room);
	uint64_t length = cursor_u32(&c);
	*unit =
	    (struct dwarf_unit){.offset = offset, .encoding = {.unit = offset, .offset_bytes = 4}};
	if (length == UINT32_MAX) { /* the 64-bit format: DWARF 5, 7.4 */
		length = cursor_u64(&c);
		unit->encoding.offset_bytes = 8;
	}
	if (c.failed || length > size - offset - cursor_offset(&c))
		return false;
	unit->end = offset + cursor_offset(&c) + length;
	header_read(&c, unit);
	unit->entries = offset + cursor_offset(&c);
	struct cursor root = c;
	unit->root_code = unit->entries < unit->end ? cursor_uleb128(&root) : 0;
	return !c.failed && unit->entries <= unit->end && unit->encoding.version >= 2 &&
	       unit->encoding.version <= 5 && unit->encoding.address_bytes == sizeof(uint64_t);
}

void dwarf_unit_window(struct dwarf_reader *reader, const struct dwarf_unit *unit, size_t step,
		       struct elf_window *info)
{
	dwarf_window_init(reader, DWARF_INFO, step, info);
	elf_window_limit(info, unit->end);
}

bool dwarf_unit_read_root(struct dwarf_reader *reader, struct dwarf_unit *unit,
			  const struct dwarf_abbrevs *abbrevs)
{
	struct elf_window info;
	struct dwarf_entry *root = &unit->root;

	dwarf_unit_window(reader, unit, ENTRY_BYTES_LARGE, &info);
	const bool read = dwarf_entry_read(reader, unit, abbrevs, &info, unit->entries, root);
	elf_window_fini(&info);
	if (!read || !root->tag)
		return false;

	const struct dwarf_value *values = root->values;
	if (values[DWARF_DWO_ID].form)
		unit->dwo_id = values[DWARF_DWO_ID].number;
	if (unit->is_split)
		return true;
	unit->encoding.str_offsets_base = values[DWARF_STR_OFFSETS_BASE].number;
	unit->encoding.addr_base = values[DWARF_ADDR_BASE].number;
	unit->rnglists_base = values[DWARF_RNGLISTS_BASE].number;
	if (!dwarf_value_address(reader, &unit->encoding, &values[DWARF_LOW_PC], &unit->base))
		unit->base = 0;
	return true;
}

/* --- abbreviations --- */

/* Which of the kept attributes a DW_AT_* is. */
static uint8_t attribute_kept(uint64_t name)
{
	switch (name) {
	case DW_AT_low_pc:
		return DWARF_LOW_PC;
	case DW_AT_high_pc:
		return DWARF_HIGH_PC;
	case DW_AT_ranges:
		return DWARF_RANGE_LIST;
	case DW_AT_name:
		return DWARF_NAME;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		return DWARF_LINKAGE_NAME;
	case DW_AT_abstract_origin:
	case DW_AT_specification:
		return DWARF_ORIGIN;
	case DW_AT_sibling:
		return DWARF_SIBLING;
	case DW_AT_call_file:
		return DWARF_CALL_FILE;
	case DW_AT_call_line:
		return DWARF_CALL_LINE;
	case DW_AT_decl_line:
		return DWARF_DECL_LINE;
	case DW_AT_stmt_list:
		return DWARF_STMT_LIST;
	case DW_AT_comp_dir:
		return DWARF_COMP_DIR;
	case DW_AT_str_offsets_base:
		return DWARF_STR_OFFSETS_BASE;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		return DWARF_ADDR_BASE;
	case DW_AT_rnglists_base:
		return DWARF_RNGLISTS_BASE;
	case DW_AT_GNU_ranges_base:
		return DWARF_RANGES_BASE;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		return DWARF_DWO_NAME;
	case DW_AT_GNU_dwo_id:
		return DWARF_DWO_ID;
	default:
		return DWARF_ATTRIBUTE_COUNT;
	}
}

/* Returns whether values of entries with this tag are used, apart from the place of the sibling.
 * Most entries are of variables, types and calls. */
static bool has_values(uint64_t tag)
{
	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
	       tag == DW_TAG_compile_unit || tag == DW_TAG_partial_unit ||
	       tag == DW_TAG_skeleton_unit || tag == DW_TAG_type_unit;
}

/* Adds a part to the abbreviation whose parts begin with `first`. Neighbours that are only skipped
 * become one, if their sizes are known. */
static int abbrev_add_part(struct dwarf_abbrevs *abbrevs, const struct dwarf_encoding *encoding,
			   size_t first, struct dwarf_abbrev_part part)
{
	const int bytes = dwarf_form_bytes(encoding, part.form);
	struct dwarf_abbrev_part *last =
	    abbrevs->part_count > first ? &abbrevs->parts[abbrevs->part_count - 1] : NULL;

	part.bytes = (int8_t)bytes;
	if (bytes >= 0 && part.kept == DWARF_ATTRIBUTE_COUNT) {
		part.form = 0;
		part.constant = bytes;
		if (last && !last->form) {
			last->constant += bytes;
			return 0;
		}
	}
	const int r = ARRAY_RESERVE(abbrevs->parts, abbrevs->part_capacity, abbrevs->part_count + 1,
				    256, ABBREV_PARTS_MAX);
	if (r < 0)
		return r == -ENOMEM ? r : -EBADMSG;
	abbrevs->parts[abbrevs->part_count++] = part;
	return 0;
}

/* Returns what entries of an abbreviation are read for. */
static uint8_t uses_of(const struct dwarf_abbrevs *abbrevs, const struct dwarf_abbrev *abbrev,
		       bool is_inlined)
{
	const bool is_function = abbrev->tag == DW_TAG_subprogram;
	uint8_t uses =
	    abbrev->has_children || abbrev->tag == DW_TAG_inlined_subroutine ? DWARF_FOR_CALLS : 0;

	if (is_function && is_inlined)
		uses |= DWARF_FOR_FUNCTIONS;
	for (uint32_t i = 0; i < abbrev->count; i++) {
		const uint8_t kept = abbrevs->parts[abbrev->first + i].kept;

		if (kept == DWARF_SIBLING ||
		    (is_function && (kept == DWARF_LOW_PC || kept == DWARF_RANGE_LIST)))
			uses |= DWARF_FOR_FUNCTIONS;
	}
	return uses;
}

/* Returns the size of the values of an entry with an abbreviation, if all have the same. */
static uint32_t bytes_of(const struct dwarf_abbrevs *abbrevs, const struct dwarf_abbrev *abbrev)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < abbrev->count; i++) {
		const struct dwarf_abbrev_part *part = &abbrevs->parts[abbrev->first + i];

		if (part->form && part->bytes < 0)
			return DWARF_BYTES_VARY;
		bytes += part->form ? (uint64_t)part->bytes : (uint64_t)part->constant;
	}
	return bytes < DWARF_BYTES_VARY ? (uint32_t)bytes : DWARF_BYTES_VARY;
}

/* Passes over an abbreviation whose code was read. Returns 1, or -EBADMSG if the cursor's end was
 * reached. */
static int abbrev_pass(struct cursor *c)
{
	uint64_t name, form;

	cursor_uleb128(c); /* the tag */
	cursor_skip(c, 1); /* whether there are children */
	do {
		name = cursor_uleb128(c);
		form = cursor_uleb128(c);
		if (form == DW_FORM_implicit_const)
			cursor_sleb128(c);
	} while ((name || form) && !c->failed);
	return c->failed ? -EBADMSG : 1;
}

/* Reads an abbreviation, or passes over it if another one is wanted; 0: all are wanted. Returns 1;
 * 0 at the end of the table; or an error. */
static int abbrev_read(struct cursor *c, const struct dwarf_encoding *encoding, uint64_t wanted,
		       struct dwarf_abbrevs *abbrevs)
{
	struct dwarf_abbrev abbrev = {.first = (uint32_t)abbrevs->part_count};
	bool is_inlined = false;

	abbrev.code = cursor_uleb128(c);
	if (c->failed || abbrev.code == 0)
		return c->failed ? -EBADMSG : 0;
	if (wanted && abbrev.code != wanted)
		return abbrev_pass(c);
	const uint64_t tag = cursor_uleb128(c);
	abbrev.has_children = cursor_u8(c) == DW_CHILDREN_yes;
	for (;;) {
		const uint64_t name = cursor_uleb128(c);
		const uint64_t form = cursor_uleb128(c);
		const int64_t constant = form == DW_FORM_implicit_const ? cursor_sleb128(c) : 0;

		if (c->failed || tag == 0 || tag > UINT16_MAX || form > UINT16_MAX)
			return -EBADMSG;
		if (name == 0 && form == 0)
			break;
		if (form == 0)
			return -EBADMSG;
		is_inlined |= name == DW_AT_inline;
		const struct dwarf_abbrev_part part = {
		    .form = (uint16_t)form,
		    .kept = has_values(tag) || name == DW_AT_sibling ? attribute_kept(name)
								     : DWARF_ATTRIBUTE_COUNT,
		    .constant = constant};
		const int r = abbrev_add_part(abbrevs, encoding, abbrev.first, part);
		if (r < 0)
			return r;
	}
	abbrev.tag = (uint16_t)tag;
	abbrev.count = (uint32_t)abbrevs->part_count - abbrev.first;
	abbrev.uses = uses_of(abbrevs, &abbrev, is_inlined);
	abbrev.bytes = bytes_of(abbrevs, &abbrev);
	const int r =
	    ARRAY_RESERVE(abbrevs->items, abbrevs->capacity, abbrevs->count + 1, 128, ABBREVS_MAX);
	if (r < 0)
		return r == -ENOMEM ? r : -EBADMSG;
	abbrevs->items[abbrevs->count++] = abbrev;
	return 1;
}

static int compare_abbrevs(const void *a, const void *b)
{
	const struct dwarf_abbrev *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

/* Reads abbreviations from one buffer after the other, until that which is wanted was read (0: all
 * of them). What is cut off at the end of a buffer is read again at the start of the next one. */
static int abbrevs_read(struct dwarf_reader *reader, struct elf_window *window,
			const struct dwarf_unit *unit, uint64_t wanted,
			struct dwarf_abbrevs *abbrevs)
{
	uint64_t at = unit->abbrevs, need = window->step;

	for (;;) {
		const uint64_t left = at < window->length ? window->length - at : 0;
		struct cursor c;

		if (need > left)
			need = left;
		if (!need || elf_window_get(window, at, need, &c) < 0 ||
		    !dwarf_pay(reader, DWARF_READ_COST + need))
			return -EBADMSG;
		int r = 1;
		size_t done = 0;
		while (r == 1 && !(wanted && abbrevs->count)) {
			const size_t parts = abbrevs->part_count;

			r = abbrev_read(&c, &unit->encoding, wanted, abbrevs);
			if (c.failed)
				abbrevs->part_count = parts;
			else
				done = cursor_offset(&c);
		}
		if (!c.failed)
			return r < 0 ? r : 0;
		if (need == left || (!done && need >= ENTRY_BYTES_MAX))
			return -EBADMSG;
		at += done;
		need = done ? window->step : 2 * need;
	}
}

static int abbrevs_start(struct dwarf_reader *reader, const struct dwarf_unit *unit,
			 uint64_t wanted, struct dwarf_abbrevs *abbrevs)
{
	struct elf_window window;

	abbrevs->count = abbrevs->part_count = 0;
	dwarf_window_init(reader, DWARF_ABBREV, wanted ? ROOT_ABBREV_STEP : ABBREVS_STEP, &window);
	const int r = abbrevs_read(reader, &window, unit, wanted, abbrevs);
	elf_window_fini(&window);
	return r;
}

int dwarf_abbrevs_read_root(struct dwarf_reader *reader, const struct dwarf_unit *unit,
			    struct dwarf_abbrevs *abbrevs)
{
	return unit->root_code ? abbrevs_start(reader, unit, unit->root_code, abbrevs) : -EBADMSG;
}

int dwarf_abbrevs_read(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		       struct dwarf_abbrevs *abbrevs)
{
	const int r = abbrevs_start(reader, unit, 0, abbrevs);

	if (r < 0)
		return r;
	array_sort(abbrevs->items, abbrevs->count, sizeof(abbrevs->items[0]), compare_abbrevs);
	ARRAY_FIT(abbrevs->items, abbrevs->capacity, abbrevs->count);
	ARRAY_FIT(abbrevs->parts, abbrevs->part_capacity, abbrevs->part_count);
	return 0;
}

void dwarf_abbrevs_free(struct dwarf_abbrevs *abbrevs)
{
	free(abbrevs->items);
	free(abbrevs->parts);
	*abbrevs = (struct dwarf_abbrevs){0};
}

size_t dwarf_abbrevs_bytes(const struct dwarf_abbrevs *abbrevs)
{
	return abbrevs->capacity * sizeof(abbrevs->items[0]) +
	       abbrevs->part_capacity * sizeof(abbrevs->parts[0]);
}

static const struct dwarf_abbrev *abbrev_find(const struct dwarf_abbrevs *abbrevs, uint64_t code)
{
	size_t at = (size_t)(code - 1);

	/* Compilers count from one on. */
	if (at >= abbrevs->count || abbrevs->items[at].code != code)
		at = SEARCH_LOWER_BOUND(i, abbrevs->count, abbrevs->items[i].code < code);
	return at < abbrevs->count && abbrevs->items[at].code == code ? &abbrevs->items[at] : NULL;
}

/* --- entries --- */

/* Reads an entry of which the cursor has at least the start. */
static void entry_decode(const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs,
			 struct cursor *c, struct dwarf_entry *entry)
{
	const uint64_t code = cursor_uleb128(c);

	entry->tag = 0;
	entry->has_children = false;
	if (code == 0)
		return;
	const struct dwarf_abbrev *abbrev = abbrev_find(abbrevs, code);
	if (!abbrev) {
		c->failed = true;
		return;
	}
	entry->tag = abbrev->tag;
	entry->has_children = abbrev->has_children;
	memset(entry->values, 0, sizeof(entry->values));
	for (uint32_t i = 0; i < abbrev->count && !c->failed; i++) {
		const struct dwarf_abbrev_part *part = &abbrevs->parts[abbrev->first + i];
		struct dwarf_value value = {.form = part->form, .number = (uint64_t)part->constant};

		if (!part->form) {
			cursor_skip(c, (uint64_t)part->constant);
		} else if (part->kept == DWARF_ATTRIBUTE_COUNT) {
			dwarf_value_skip(c, &unit->encoding, part->form);
		} else {
			/* Most values are of this kind. */
			if (part->bytes > 0)
				value.number = dwarf_number_read(c, (unsigned int)part->bytes);
			else
				dwarf_value_read(c, &unit->encoding, entry->offset, &value);
			entry->values[part->kept] = value;
		}
	}
}

bool dwarf_entry_read(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, struct elf_window *info, uint64_t offset,
		      struct dwarf_entry *entry)
{
	if (offset < unit->entries || offset >= unit->end || reader->left == 0)
		return false;
	const uint64_t left = unit->end - offset;
	uint64_t need = info->step < ENTRY_BYTES ? info->step : ENTRY_BYTES;

	if (need > left)
		need = left;
	entry->offset = offset;
	for (;;) {
		struct cursor c;

		if (elf_window_get(info, offset, need, &c) < 0)
			return false;
		if (cursor_left(&c) > left)
			c.end = c.at + left;
		entry_decode(unit, abbrevs, &c, entry);
		if (!c.failed) {
			entry->next = offset + cursor_offset(&c);
			dwarf_pay(reader, ENTRY_COST + cursor_offset(&c));
			return true;
		}
		if (need >= left || need >= ENTRY_BYTES_MAX ||
		    !dwarf_pay(reader, DWARF_READ_COST + need))
			return false;
		need = need < ENTRY_BYTES_LARGE ? ENTRY_BYTES_LARGE : ENTRY_BYTES_MAX;
		if (need > left)
			need = left;
	}
}

/* Passes over the values of an entry. */
static void values_pass(struct cursor *c, const struct dwarf_unit *unit,
			const struct dwarf_abbrevs *abbrevs, const struct dwarf_abbrev *abbrev)
{
	if (abbrev->bytes != DWARF_BYTES_VARY) {
		cursor_skip(c, abbrev->bytes);
		return;
	}
	for (uint32_t i = 0; i < abbrev->count; i++) {
		const struct dwarf_abbrev_part *part = &abbrevs->parts[abbrev->first + i];

		if (!part->form)
			cursor_skip(c, (uint64_t)part->constant);
		else if (part->bytes >= 0)
			cursor_skip(c, (uint64_t)part->bytes);
		else if (part->form == DW_FORM_exprloc) /* most of the others are of this kind */
			cursor_skip(c, cursor_uleb128(c));
		else
			dwarf_value_skip(c, &unit->encoding, part->form);
	}
}

/* Passes over entries that are of no use and lie in the window as a whole. Returns where it
 * stopped. */
static uint64_t entries_pass(struct dwarf_reader *reader, const struct dwarf_unit *unit,
			     const struct dwarf_abbrevs *abbrevs, struct elf_window *info,
			     uint64_t offset, enum dwarf_use use)
{
	const uint64_t left = offset < unit->end ? unit->end - offset : 0;
	struct cursor c;
	size_t passed = 0;
	uint64_t cost = 0;

	if (left < ENTRY_BYTES || elf_window_get(info, offset, ENTRY_BYTES, &c) < 0)
		return offset;
	while (reader->left > PASS_LEAST_COST + cost + passed) {
		const uint64_t code = cursor_uleb128(&c);
		const struct dwarf_abbrev *abbrev = code ? abbrev_find(abbrevs, code) : NULL;

		if (abbrev && !(abbrev->uses & use))
			values_pass(&c, unit, abbrevs, abbrev);
		else if (code || use != DWARF_FOR_FUNCTIONS)
			break;
		if (c.failed)
			break;
		cost += ENTRY_COST;
		passed = cursor_offset(&c);
	}
	dwarf_pay(reader, cost + passed);
	return offset + passed;
}

bool dwarf_entry_find(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_abbrevs *abbrevs, struct elf_window *info, uint64_t offset,
		      enum dwarf_use use, struct dwarf_entry *entry)
{
	offset = entries_pass(reader, unit, abbrevs, info, offset, use);
	return dwarf_entry_read(reader, unit, abbrevs, info, offset, entry);
}

uint64_t dwarf_entry_skip(const struct dwarf_unit *unit, const struct dwarf_entry *entry)
{
	uint64_t sibling;

	if (entry->has_children &&
	    dwarf_value_reference(&unit->encoding, &entry->values[DWARF_SIBLING], &sibling) &&
	    sibling >= entry->next && sibling <= unit->end)
		return sibling;
	return entry->next;
}
