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
	FUNCTION_STEP = 2048,
	/* Functions that may have the same code, or be nested. */
	ENCLOSING_MAX = 16,
	/* Inlined calls, and their ranges, that a unit has in memory, and that it keeps when
	 * another function is read: up to 6 MB. All of HarfBuzz as one unit has 64,000 calls. */
	CALLS_MAX = 1 << 17,
	CALLS_KEPT = 3 << 15,
	RANGES_MAX = 1 << 18,
	RANGES_KEPT = 3 << 16,
	/* What reading an inlined call may cost. Real ones have a few ranges. */
	INLINED_COST = 1 << 16,
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
	    (struct dwarf_function){.start = start,
				    .end = end,
				    .entry = building->entry,
				    .inlined_count = DWARF_INLINED_UNKNOWN};
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
	dwarf_unit_window(reader, unit, UNIT_STEP, &info);
	while (r == 0 && !functions->complete && dwarf_left(reader) > ENTRY_COST) {
		if (!dwarf_entry_find(reader, unit, abbrevs, &info, functions->at,
				      DWARF_FOR_FUNCTIONS, &entry)) {
			functions->complete = true;
			break;
		}
		functions->at =
		    has_functions(entry.tag) ? entry.next : dwarf_entry_skip(unit, &entry);
		if (entry.tag != DW_TAG_subprogram)
			continue;
		dwarf_name_sources_add(&functions->names, unit, &entry);
		building.entry = entry.offset;
		r = dwarf_ranges_each(reader, unit, &entry, add_range, &building);
	}
	elf_window_fini(&info);
	if (functions->complete) {
		if (functions->count)
			qsort(functions->items, functions->count, sizeof(functions->items[0]),
			      compare_functions);
		ARRAY_FIT(functions->items, functions->capacity, functions->count);
		ARRAY_FIT(functions->names.items, functions->names.capacity,
			  functions->names.count);
	}
	return r;
}

/* Makes what is inlined into all functions unknown. */
static void inlined_drop(struct dwarf_functions *functions)
{
	for (size_t i = 0; i < functions->count; i++)
		functions->items[i].inlined_count = DWARF_INLINED_UNKNOWN;
}

void dwarf_functions_strip(struct dwarf_functions *functions)
{
	dwarf_name_sources_free(&functions->names);
	free(functions->inlined.items);
	free(functions->inlined.spans);
	free(functions->inlined.ranges);
	functions->inlined = (struct dwarf_inlined_calls){0};
	inlined_drop(functions);
}

void dwarf_functions_free(struct dwarf_functions *functions)
{
	dwarf_functions_strip(functions);
	free(functions->items);
	*functions = (struct dwarf_functions){0};
}

size_t dwarf_functions_bytes(const struct dwarf_functions *functions)
{
	return functions->capacity * sizeof(functions->items[0]) +
	       functions->names.capacity * sizeof(functions->names.items[0]) +
	       functions->inlined.capacity * sizeof(functions->inlined.items[0]) +
	       functions->inlined.span_capacity * sizeof(functions->inlined.spans[0]) +
	       functions->inlined.range_capacity * sizeof(functions->inlined.ranges[0]);
}

/* Returns the function with the latest start that has the address, or NULL. */
static struct dwarf_function *function_at(const struct dwarf_functions *functions, uint64_t vaddr)
{
	const size_t after =
	    SEARCH_LOWER_BOUND(i, functions->count, functions->items[i].start <= vaddr);

	for (size_t i = after; i-- > 0 && after - i <= ENCLOSING_MAX;) {
		if (vaddr < functions->items[i].end)
			return &functions->items[i];
	}
	return NULL;
}

/* Returns whether an entry belongs to the function itself. Compilers also write blocks, some of
 * them without addresses; what is inlined into a block has addresses of its own. */
static bool is_part(uint16_t tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
	       tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

/* --- what is inlined into a function --- */

struct adding {
	struct dwarf_inlined_calls *inlined;
	uint64_t code_start;
};

static int keep_range(struct dwarf_inlined_calls *inlined, struct dwarf_inlined_range range)
{
	const int r = ARRAY_RESERVE(inlined->ranges, inlined->range_capacity,
				    inlined->range_count + 1, 16, RANGES_MAX);

	if (r == 0)
		inlined->ranges[inlined->range_count++] = range;
	return r;
}

static int add_inlined_range(void *context, uint64_t start, uint64_t end)
{
	const struct adding *adding = context;
	struct dwarf_inlined_calls *inlined = adding->inlined;
	struct dwarf_inlined *call = &inlined->items[inlined->count - 1];
	struct dwarf_inlined_range *code = &inlined->spans[inlined->count - 1].code;
	/* All addresses of a file are within 4 GiB (dwarf_file_open()). */
	const struct dwarf_inlined_range range = {(uint32_t)(start - adding->code_start),
						  (uint32_t)(end - adding->code_start)};
	int r = 0;

	if (call->range_count == UINT16_MAX)
		return -E2BIG;
	if (call->range_count == 0) {
		*code = range;
	} else {
		if (call->range_count == 1)
			r = keep_range(inlined, *code);
		if (r == 0)
			r = keep_range(inlined, range);
		if (r < 0)
			return r;
		if (range.start < code->start)
			code->start = range.start;
		if (range.end > code->end)
			code->end = range.end;
	}
	call->range_count++;
	return 0;
}

static uint32_t number_if_small(const struct dwarf_value *value)
{
	return value->number <= UINT32_MAX ? (uint32_t)value->number : 0;
}

/* Returns by which entry an inlined call is named (struct dwarf_inlined), from the start of the
 * unit. With link time optimization, most are in another unit than the call. */
static int64_t named_entry(const struct dwarf_unit *unit, const struct dwarf_entry *entry)
{
	uint64_t origin;

	if (dwarf_value_reference(&unit->encoding, &entry->values[DWARF_ORIGIN], &origin)) {
		const int64_t from_unit = (int64_t)(origin - unit->offset);

		if (from_unit >= INT32_MIN && from_unit <= INT32_MAX)
			return from_unit;
	}
	return (int64_t)(entry->offset - unit->offset);
}

/* Adds an inlined call. Returns 0; -E2BIG: there is no room for it; or -ENOMEM. */
static int inlined_add(struct dwarf_inlined_calls *inlined, struct dwarf_reader *reader,
		       const struct dwarf_unit *unit, const struct dwarf_entry *entry)
{
	struct adding adding = {inlined, reader->file->code_start};
	const int64_t named = named_entry(unit, entry);
	const size_t count = inlined->count + 1;
	int r = ARRAY_RESERVE(inlined->items, inlined->capacity, count, 8, CALLS_MAX);

	if (r == 0)
		r = ARRAY_RESERVE(inlined->spans, inlined->span_capacity, count, 8, CALLS_MAX);
	if (r < 0 || named > INT32_MAX)
		return r < 0 ? r : -E2BIG;
	inlined->items[inlined->count] = (struct dwarf_inlined){
	    .entry = (int32_t)named,
	    .call_file = number_if_small(&entry->values[DWARF_CALL_FILE]),
	    .call_line = number_if_small(&entry->values[DWARF_CALL_LINE]),
	    .first_range = (uint32_t)inlined->range_count,
	};
	inlined->spans[inlined->count] = (struct dwarf_inlined_span){.after = (uint32_t)count};
	inlined->count = count;
	return dwarf_ranges_each(reader, unit, entry, add_inlined_range, &adding);
}

/* Drops what was read of all functions, if that is much. */
static void inlined_limit(struct dwarf_functions *functions)
{
	struct dwarf_inlined_calls *inlined = &functions->inlined;

	if (inlined->count <= CALLS_KEPT && inlined->range_count <= RANGES_KEPT)
		return;
	inlined->count = inlined->range_count = 0;
	inlined_drop(functions);
}

/* Starts to read what is inlined into a function. */
static void inlined_start(struct dwarf_functions *functions, struct dwarf_function *function)
{
	struct dwarf_inlined_calls *inlined = &functions->inlined;

	inlined_limit(functions);
	function->first_inlined = (uint32_t)inlined->count;
	inlined->reading = function;
	inlined->at = function->entry;
	inlined->depth = inlined->inside = inlined->open_count = 0;
}

/* Ends the innermost inlined call that is not over. */
static void inlined_end(struct dwarf_inlined_calls *inlined)
{
	inlined->spans[inlined->open[--inlined->open_count].index].after = (uint32_t)inlined->count;
}

/* Takes an entry below the function, or its own. Returns 0; 1: it was the last one; or an error as
 * inlined_add(). */
static int inlined_take(struct dwarf_inlined_calls *inlined, struct dwarf_reader *reader,
			const struct dwarf_unit *unit, const struct dwarf_entry *entry)
{
	int r = 0;

	inlined->at = entry->next;
	if (!entry->tag) {
		/* The children of an entry end. */
		inlined->depth--;
		if (inlined->inside >= inlined->depth)
			inlined->inside = inlined->depth - 1;
		if (inlined->open_count &&
		    inlined->open[inlined->open_count - 1].depth == inlined->depth)
			inlined_end(inlined);
	} else if (!inlined->depth) {
		inlined->depth = entry->has_children;
	} else if (inlined->depth == inlined->inside + 1 && is_part(entry->tag) &&
		   inlined->open_count < DWARF_CALLS_MAX) {
		if (entry->tag == DW_TAG_inlined_subroutine) {
			r = inlined_add(inlined, reader, unit, entry);
			if (r == 0 && entry->has_children) {
				inlined->open[inlined->open_count].index =
				    (uint32_t)inlined->count - 1;
				inlined->open[inlined->open_count++].depth = inlined->depth;
			}
		}
		inlined->inside += entry->has_children;
		inlined->depth += entry->has_children;
	} else {
		inlined->at = dwarf_entry_skip(unit, entry);
		inlined->depth += entry->has_children && inlined->at == entry->next;
	}
	return r == 0 && !inlined->depth ? 1 : r;
}

/* Goes on with the function that is being read. Returns false if the account is used up. */
static bool inlined_read(struct dwarf_inlined_calls *inlined, struct dwarf_reader *reader,
			 const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs)
{
	struct dwarf_entry entry;
	struct elf_window info;
	int r = 0;

	dwarf_unit_window(reader, unit, FUNCTION_STEP, &info);
	while (r == 0 && dwarf_left(reader) > INLINED_COST)
		r = dwarf_entry_find(reader, unit, abbrevs, &info, inlined->at, DWARF_FOR_CALLS,
				     &entry)
			? inlined_take(inlined, reader, unit, &entry)
			: 1;
	elf_window_fini(&info);
	if (r == 0)
		return false;
	/* Without room, those that were read are kept. */
	while (inlined->open_count)
		inlined_end(inlined);
	inlined->reading->inlined_count =
	    (uint32_t)inlined->count - inlined->reading->first_inlined;
	inlined->reading = NULL;
	return true;
}

int dwarf_functions_read_inlined(struct dwarf_functions *functions, struct dwarf_reader *reader,
				 const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs,
				 uint64_t vaddr)
{
	struct dwarf_function *function = function_at(functions, vaddr);

	while (function && function->inlined_count == DWARF_INLINED_UNKNOWN) {
		/* Another function may be read first, to its end: an address of a large function
		 * needs several calls, and those for other addresses come in between. */
		if (!functions->inlined.reading)
			inlined_start(functions, function);
		if (!inlined_read(&functions->inlined, reader, unit, abbrevs))
			return -EAGAIN;
	}
	return 0;
}

/* --- a lookup --- */

static void calls_add(struct dwarf_calls *calls, struct dwarf_call call)
{
	if (calls->count < DWARF_CALLS_MAX)
		calls->items[calls->count++] = call;
}

static void calls_reverse(struct dwarf_calls *calls)
{
	for (unsigned int i = 0, j = calls->count - 1; i < j; i++, j--) {
		const struct dwarf_call call = calls->items[i];

		calls->items[i] = calls->items[j];
		calls->items[j] = call;
	}
}

/* Returns whether code that is in the span of a call is in one of its ranges. */
static bool inlined_contains(const struct dwarf_inlined_calls *inlined,
			     const struct dwarf_inlined *call, uint32_t code)
{
	for (uint32_t i = 0; call->range_count > 1 && i < call->range_count; i++) {
		const struct dwarf_inlined_range *range = &inlined->ranges[call->first_range + i];

		if (code >= range->start && code < range->end)
			return true;
	}
	return call->range_count == 1;
}

bool dwarf_functions_find(const struct dwarf_functions *functions, const struct dwarf_file *file,
			  const struct dwarf_unit *unit, uint64_t vaddr, struct dwarf_calls *calls)
{
	const struct dwarf_function *function = function_at(functions, vaddr);
	const uint32_t code = (uint32_t)(vaddr - file->code_start);

	if (!function || function->inlined_count == DWARF_INLINED_UNKNOWN)
		return false;
	calls->count = 0;
	calls_add(calls, (struct dwarf_call){.entry = function->entry});
	const uint32_t end = function->first_inlined + function->inlined_count;
	for (uint32_t i = function->first_inlined; i < end;) {
		const struct dwarf_inlined *call = &functions->inlined.items[i];
		const struct dwarf_inlined_span *span = &functions->inlined.spans[i];

		if (code < span->code.start || code >= span->code.end ||
		    !inlined_contains(&functions->inlined, call, code)) {
			i = span->after;
			continue;
		}
		calls_add(calls, (struct dwarf_call){.entry = unit->offset +
							      (uint64_t)(int64_t)call->entry,
						     .call_file = call->call_file,
						     .call_line = call->call_line});
		i++;
	}
	calls_reverse(calls);
	return true;
}
