/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_functions.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/search.h"
#include "parse/dwarf_ranges.h"

enum {
	FUNCTIONS_MAX = 1 << 17,
	/* What reading an entry may cost, apart from long lists of ranges. */
	ENTRY_COST = 8192,
	/* Bytes that are read at once: of a unit, and of a function. */
	UNIT_STEP = 64 << 10,
	FUNCTION_STEP = 4096,
	/* Functions that may have the same code, or be nested. */
	ENCLOSING_MAX = 16,
};

/* --- the index --- */

struct building {
	struct dwarf_functions *functions;
	uint64_t entry;
};

static int add_range(void *context, uint64_t start, uint64_t end)
{
	const struct building *building = context;
	struct dwarf_functions *functions = building->functions;
	const int r = ARRAY_RESERVE(functions->items, functions->capacity, functions->count + 1, 32,
				    FUNCTIONS_MAX);

	if (r < 0)
		return r;
	functions->items[functions->count++] =
	    (struct dwarf_function){.start = start, .end = end, .entry = building->entry};
	return 0;
}

static int compare_functions(const void *a, const void *b)
{
	const struct dwarf_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start > y->start ? 1 : -1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

/* Returns whether functions may be below an entry with this tag. gcc writes those of types and of
 * other functions as children of the unit, and says where the next sibling of a type is. Other
 * compilers do not say that, so that all entries are read. */
static bool has_functions(uint16_t tag)
{
	return tag == DW_TAG_compile_unit || tag == DW_TAG_namespace || tag == DW_TAG_module;
}

int dwarf_functions_read(struct dwarf_functions *functions, struct dwarf_reader *reader,
			 const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs)
{
	struct building building = {.functions = functions};
	struct dwarf_entry entry;
	struct elf_window info;
	int r = 0;

	if (!functions->at)
		functions->at = unit->entries;
	dwarf_window_init(reader, DWARF_INFO, UNIT_STEP, &info);
	while (r == 0 && !functions->complete && reader->left > ENTRY_COST) {
		if (!dwarf_entry_read(reader, unit, abbrevs, &info, functions->at, &entry)) {
			functions->complete = true;
			break;
		}
		functions->at =
		    has_functions(entry.tag) ? entry.next : dwarf_entry_skip(unit, &entry);
		if (entry.tag != DW_TAG_subprogram)
			continue;
		building.entry = entry.offset;
		r = dwarf_ranges_each(reader, unit, &entry, add_range, &building);
	}
	elf_window_fini(&info);
	if (functions->complete && functions->count)
		qsort(functions->items, functions->count, sizeof(functions->items[0]),
		      compare_functions);
	return r;
}

void dwarf_functions_free(struct dwarf_functions *functions)
{
	free(functions->items);
	*functions = (struct dwarf_functions){0};
}

size_t dwarf_functions_bytes(const struct dwarf_functions *functions)
{
	return functions->capacity * sizeof(functions->items[0]);
}

/* --- a lookup --- */

/* Returns the function with the latest start that has the address, or NULL. */
static const struct dwarf_function *function_at(const struct dwarf_functions *functions,
						uint64_t vaddr)
{
	const size_t after =
	    SEARCH_LOWER_BOUND(i, functions->count, functions->items[i].start <= vaddr);

	for (size_t i = after; i-- > 0 && after - i <= ENCLOSING_MAX;) {
		if (vaddr < functions->items[i].end)
			return &functions->items[i];
	}
	return NULL;
}

static void calls_add(struct dwarf_calls *calls, const struct dwarf_entry *entry)
{
	if (calls->count == DWARF_CALLS_MAX)
		return;
	calls->items[calls->count++] =
	    (struct dwarf_call){.entry = entry->offset,
				.call_file = entry->values[DWARF_CALL_FILE].number,
				.call_line = entry->values[DWARF_CALL_LINE].number};
}

/* Returns whether the entry is a part of a function that may have the address in it. Some compilers
 * write blocks without addresses. */
static bool may_contain(struct dwarf_reader *reader, const struct dwarf_unit *unit,
			const struct dwarf_entry *entry, uint64_t vaddr)
{
	switch (entry->tag) {
	case DW_TAG_inlined_subroutine:
		return dwarf_ranges_contain(reader, unit, entry, vaddr);
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return (!dwarf_entry_has(entry, DWARF_LOW_PC) &&
			!dwarf_entry_has(entry, DWARF_RANGE_LIST)) ||
		       dwarf_ranges_contain(reader, unit, entry, vaddr);
	default:
		return false;
	}
}

static void calls_reverse(struct dwarf_calls *calls)
{
	for (unsigned int i = 0, j = calls->count - 1; i < j; i++, j--) {
		const struct dwarf_call call = calls->items[i];

		calls->items[i] = calls->items[j];
		calls->items[j] = call;
	}
}

bool dwarf_functions_find(const struct dwarf_functions *functions, struct dwarf_reader *reader,
			  const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs,
			  uint64_t vaddr, struct dwarf_calls *calls)
{
	const struct dwarf_function *function = function_at(functions, vaddr);
	/* How deep an entry is below the function, and how deep the last one was that has the
	 * address: only children of that one are of interest. */
	unsigned int depth = 1, inside = 0;
	struct dwarf_entry entry;
	struct elf_window info;

	if (!function)
		return false;
	calls->count = 0;
	dwarf_window_init(reader, DWARF_INFO, FUNCTION_STEP, &info);
	if (dwarf_entry_read(reader, unit, abbrevs, &info, function->entry, &entry))
		calls_add(calls, &entry);
	bool more = calls->count && entry.has_children;
	uint64_t at = entry.next;
	while (more && dwarf_entry_read(reader, unit, abbrevs, &info, at, &entry)) {
		at = entry.next;
		if (!entry.tag) {
			/* The children of an entry end. After those of the one that has the
			 * address, nothing else can have it, unless it was a mere block. */
			depth--;
			more = depth > 0;
			if (more && inside >= depth)
				inside = depth - 1;
		} else if (depth == inside + 1 && may_contain(reader, unit, &entry, vaddr)) {
			if (entry.tag == DW_TAG_inlined_subroutine)
				calls_add(calls, &entry);
			inside += entry.has_children;
			depth += entry.has_children;
		} else {
			at = dwarf_entry_skip(unit, &entry);
			depth += entry.has_children && at == entry.next;
		}
	}
	elf_window_fini(&info);
	if (calls->count == 0 || reader->left == 0)
		return false;
	calls_reverse(calls);
	return true;
}
