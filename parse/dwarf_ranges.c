/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_ranges.h"

#include <dwarf.h>

enum {
	/* Bytes that are read at once, and of the largest entry of a list: a byte and two numbers
	 * of ten. */
	LIST_STEP = 512,
	LIST_ENTRY_BYTES = 21,
	LIST_ENTRY_COST = 16,
};

/* A list that is being read. */
struct list {
	struct dwarf_reader *reader;
	const struct dwarf_unit *unit;
	uint64_t base; /* that offsets are relative to */
	/* The range that was read. */
	uint64_t start, end;
};

enum list_step {
	LIST_END,
	LIST_RANGE,
	LIST_OTHER
};

static bool address_of_index(const struct list *list, uint64_t index, uint64_t *vaddr)
{
	const struct dwarf_value value = {.form = DW_FORM_addrx, .number = index};

	return dwarf_value_address(list->reader, &list->unit->encoding, &value, vaddr);
}

/* .debug_ranges: pairs of offsets from a base. */
static enum list_step ranges_next(struct list *list, struct cursor *c)
{
	const uint64_t first = cursor_u64(c);
	const uint64_t second = cursor_u64(c);

	if (first == UINT64_MAX) {
		list->base = second;
		return LIST_OTHER;
	}
	list->start = list->base + first;
	list->end = list->base + second;
	return first || second ? LIST_RANGE : LIST_END;
}

/* .debug_rnglists: each entry says what it is. */
static enum list_step rnglists_next(struct list *list, struct cursor *c)
{
	const uint8_t kind = cursor_u8(c);
	uint64_t first, second;

	switch (kind) {
	case DW_RLE_base_addressx:
		first = cursor_uleb128(c);
		return address_of_index(list, first, &list->base) ? LIST_OTHER : LIST_END;
	case DW_RLE_startx_endx:
		first = cursor_uleb128(c);
		second = cursor_uleb128(c);
		return address_of_index(list, first, &list->start) &&
			       address_of_index(list, second, &list->end)
			   ? LIST_RANGE
			   : LIST_END;
	case DW_RLE_startx_length:
		first = cursor_uleb128(c);
		second = cursor_uleb128(c);
		if (!address_of_index(list, first, &list->start))
			return LIST_END;
		list->end = list->start + second;
		return LIST_RANGE;
	case DW_RLE_offset_pair:
		first = cursor_uleb128(c);
		second = cursor_uleb128(c);
		list->start = list->base + first;
		list->end = list->base + second;
		return LIST_RANGE;
	case DW_RLE_base_address:
		list->base = cursor_u64(c);
		return LIST_OTHER;
	case DW_RLE_start_end:
		list->start = cursor_u64(c);
		list->end = cursor_u64(c);
		return LIST_RANGE;
	case DW_RLE_start_length:
		list->start = cursor_u64(c);
		list->end = list->start + cursor_uleb128(c);
		return LIST_RANGE;
	default:
		return LIST_END;
	}
}

/* Calls `visit` if the range has code of the file. */
static int range_visit(const struct dwarf_reader *reader, uint64_t start, uint64_t end,
		       int (*visit)(void *context, uint64_t start, uint64_t end), void *context)
{
	const struct dwarf_file *file = reader->file;

	return start < end && start >= file->code_start && end <= file->code_end
		   ? visit(context, start, end)
		   : 0;
}

/* Finds where the list of an entry is. Returns false if it is nowhere. */
static bool list_find(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_value *value, uint64_t *offset)
{
	if (value->form != DW_FORM_rnglistx) {
		return value->form != 0 &&
		       !__builtin_add_overflow(value->number, unit->ranges_base, offset);
	}
	/* An index in a table of offsets. */
	return dwarf_read_indexed(reader, DWARF_RNGLISTS, unit->rnglists_base, value->number,
				  unit->encoding.offset_bytes, offset) &&
	       !__builtin_add_overflow(*offset, unit->rnglists_base, offset);
}

static int list_each(struct list *list, uint64_t offset,
		     int (*visit)(void *context, uint64_t start, uint64_t end), void *context)
{
	const bool old = list->unit->encoding.version < 5;
	struct elf_window window;
	int r = 0;

	dwarf_window_init(list->reader, old ? DWARF_RANGES : DWARF_RNGLISTS, LIST_STEP, &window);
	while (r == 0 && offset < window.length && dwarf_pay(list->reader, LIST_ENTRY_COST)) {
		const uint64_t left = window.length - offset;
		struct cursor c;

		if (elf_window_get(&window, offset,
				   left < LIST_ENTRY_BYTES ? left : LIST_ENTRY_BYTES, &c) < 0)
			break;
		const enum list_step step = old ? ranges_next(list, &c) : rnglists_next(list, &c);
		if (c.failed || step == LIST_END)
			break;
		if (step == LIST_RANGE)
			r = range_visit(list->reader, list->start, list->end, visit, context);
		offset += cursor_offset(&c);
	}
	elf_window_fini(&window);
	return r;
}

int dwarf_ranges_each(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_entry *entry,
		      int (*visit)(void *context, uint64_t start, uint64_t end), void *context)
{
	const struct dwarf_value *low = &entry->values[DWARF_LOW_PC];
	const struct dwarf_value *high = &entry->values[DWARF_HIGH_PC];
	uint64_t start, end, offset;

	if (low->form && high->form) {
		if (!dwarf_value_address(reader, &unit->encoding, low, &start))
			return 0;
		/* Since DWARF 4 it may be a constant, which is an offset from the low one. */
		if (!dwarf_value_address(reader, &unit->encoding, high, &end) &&
		    __builtin_add_overflow(start, high->number, &end))
			return 0;
		return range_visit(reader, start, end, visit, context);
	}
	if (!list_find(reader, unit, &entry->values[DWARF_RANGE_LIST], &offset))
		return 0;
	struct list list = {.reader = reader, .unit = unit, .base = unit->base};
	return list_each(&list, offset, visit, context);
}
