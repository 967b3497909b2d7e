/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_units.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/search.h"
#include "parse/dwarf_ranges.h"

enum {
	UNITS_MAX = 1 << 18,
	RANGES_MAX = 1 << 19,
	/* What reading a unit may cost, apart from long lists of ranges. */
	UNIT_COST = 8192,
	/* Ranges that may be nested or equal. */
	ENCLOSING_MAX = 16,
};

struct building {
	struct dwarf_units *units;
	const struct dwarf_file *file;
};

static int add_range(void *context, uint64_t start, uint64_t end)
{
	const struct building *building = context;
	struct dwarf_units *units = building->units;
	const int r = ARRAY_RESERVE(units->ranges, units->range_capacity, units->range_count + 1,
				    64, RANGES_MAX);

	if (r < 0)
		return r;
	units->ranges[units->range_count++] = (struct dwarf_unit_range){
	    .start = (uint32_t)(start - building->file->code_start),
	    .length = (uint32_t)(end - start),
	    .unit = (uint32_t)units->count - 1,
	};
	return 0;
}

/* Adds a unit and the addresses that its first entry has. */
static int add_unit(const struct building *building, struct dwarf_reader *reader,
		    struct dwarf_unit *unit, struct dwarf_abbrevs *abbrevs)
{
	struct dwarf_units *units = building->units;
	int r = ARRAY_RESERVE(units->offsets, units->capacity, units->count + 1, 16, UNITS_MAX);

	if (r < 0)
		return r;
	units->offsets[units->count++] = unit->offset;
	if ((unit->type != DW_UT_compile && unit->type != DW_UT_skeleton) ||
	    !building->file->code_end)
		return 0;
	r = dwarf_abbrevs_read_root(reader, unit, abbrevs);
	if (r == -ENOMEM)
		return r;
	return r == 0 && dwarf_unit_read_root(reader, unit, abbrevs)
		   ? dwarf_ranges_each(reader, unit, &unit->root, add_range, (void *)building)
		   : 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct dwarf_unit_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

int dwarf_units_read(struct dwarf_units *units, struct dwarf_reader *reader)
{
	const struct building building = {units, reader->file};
	struct dwarf_abbrevs abbrevs = {0};
	struct dwarf_unit unit;
	bool is_whole = true; /* the account: no unit and no index was paid from it */
	int r = 0;

	for (; r == 0 && !units->complete; is_whole = false) {
		const size_t count = units->count, range_count = units->range_count;
		const uint64_t left = reader->left;

		const bool is_readable = dwarf_file_index_info(reader, units->at);
		is_whole = is_whole && reader->left == left;
		if (!is_readable || dwarf_left(reader) <= UNIT_COST)
			break;
		if (!dwarf_unit_read(reader, units->at, &unit)) {
			units->complete = true;
			break;
		}
		r = add_unit(&building, reader, &unit, &abbrevs);
		if (reader->left == 0 && !is_whole) {
			/* Its list of ranges is longer than the rest of the account. */
			units->count = count;
			units->range_count = range_count;
			break;
		}
		units->at = unit.end;
	}
	dwarf_abbrevs_free(&abbrevs);
	if (units->complete && units->range_count)
		qsort(units->ranges, units->range_count, sizeof(units->ranges[0]), compare_ranges);
	return r;
}

void dwarf_units_free(struct dwarf_units *units)
{
	free(units->offsets);
	free(units->ranges);
	*units = (struct dwarf_units){0};
}

size_t dwarf_units_bytes(const struct dwarf_units *units)
{
	return units->capacity * sizeof(units->offsets[0]) +
	       units->range_capacity * sizeof(units->ranges[0]);
}

bool dwarf_units_find_code(const struct dwarf_units *units, const struct dwarf_file *file,
			   uint64_t vaddr, uint64_t *offset)
{
	if (vaddr < file->code_start || vaddr >= file->code_end)
		return false;
	const uint32_t at = (uint32_t)(vaddr - file->code_start);
	const size_t after =
	    SEARCH_LOWER_BOUND(i, units->range_count, units->ranges[i].start <= at);

	for (size_t i = after; i-- > 0 && after - i <= ENCLOSING_MAX;) {
		const struct dwarf_unit_range *range = &units->ranges[i];

		if (at - range->start < range->length) {
			*offset = units->offsets[range->unit];
			return true;
		}
	}
	return false;
}

bool dwarf_units_find_offset(const struct dwarf_units *units, uint64_t inside, uint64_t *offset)
{
	const size_t after = SEARCH_LOWER_BOUND(i, units->count, units->offsets[i] <= inside);

	if (after == 0)
		return false;
	*offset = units->offsets[after - 1];
	return true;
}
