/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see dwarf_open_units.h. */
#include "symbolizer/namer/dwarf_open_units.h"

#include <stdlib.h>

enum {
	/* Units, and the memory that they may take together. With all that is inlined, those of
	 * glibc that have code take 11 MB, and the 175 of CPython 9 MB. */
	UNITS_MAX = 4096,
	BYTES_MAX = 12 << 20,
};

static size_t unit_bytes(const struct dwarf_open_unit *unit)
{
	return sizeof(*unit) + dwarf_abbrevs_bytes(&unit->abbrevs) +
	       dwarf_functions_bytes(&unit->functions) + dwarf_lines_bytes(&unit->lines);
}

static void unit_free(struct dwarf_open_unit *unit)
{
	if (!unit)
		return;
	dwarf_abbrevs_free(&unit->abbrevs);
	dwarf_functions_free(&unit->functions);
	dwarf_lines_free(&unit->lines);
	free(unit);
}

static void unit_close(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	TAILQ_REMOVE(&units->by_use, unit, by_use);
	LIST_REMOVE(unit, in_list);
	units->count--;
	units->bytes -= unit->bytes;
	unit_free(unit);
}

/* Closes the unit that was not used for the longest time, if one can be closed. Returns whether
 * there was one. */
static bool close_one(struct dwarf_open_units *units)
{
	struct dwarf_open_unit *unit = TAILQ_FIRST(&units->by_use);

	if (unit && unit == units->present)
		unit = TAILQ_NEXT(unit, by_use);
	if (!unit || unit == TAILQ_LAST(&units->by_use, dwarf_units_by_use))
		return false;
	unit_close(units, unit);
	return true;
}

void dwarf_open_units_account(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	units->bytes -= unit->bytes;
	unit->bytes = unit_bytes(unit);
	units->bytes += unit->bytes;
	while (units->bytes > BYTES_MAX && close_one(units))
		;
}

static struct dwarf_open_unit *unit_read(struct dwarf_reader *reader, uint64_t offset)
{
	struct dwarf_open_unit *unit = calloc(1, sizeof(*unit));

	if (!unit || !dwarf_unit_read(reader, offset, &unit->unit) ||
	    dwarf_abbrevs_read(reader, &unit->unit, &unit->abbrevs) < 0 ||
	    !dwarf_unit_read_root(reader, &unit->unit, &unit->abbrevs)) {
		unit_free(unit);
		return NULL;
	}
	unit->own_file = unit->file = reader->file;
	unit->own = unit->unit;
	unit->lacks_split = unit->own.dwo_id != 0;
	return unit;
}

struct dwarf_open_unit *dwarf_open_units_use(struct dwarf_open_units *units,
					     struct dwarf_reader *reader, uint64_t offset)
{
	struct dwarf_open_unit *unit;

	if (!units->by_use.tqh_last)
		TAILQ_INIT(&units->by_use);
	/* Units that a file puts into one list only cost it time. */
	LIST_FOREACH(unit, &units->lists[offset % DWARF_OPEN_LISTS], in_list) {
		if (unit->own_file == reader->file && unit->own.offset == offset) {
			TAILQ_REMOVE(&units->by_use, unit, by_use);
			TAILQ_INSERT_TAIL(&units->by_use, unit, by_use);
			return unit;
		}
	}
	if (units->count == UNITS_MAX)
		close_one(units);
	unit = unit_read(reader, offset);
	if (!unit)
		return NULL;
	TAILQ_INSERT_TAIL(&units->by_use, unit, by_use);
	LIST_INSERT_HEAD(&units->lists[offset % DWARF_OPEN_LISTS], unit, in_list);
	units->count++;
	dwarf_open_units_account(units, unit);
	return unit;
}

void dwarf_open_units_free(struct dwarf_open_units *units)
{
	struct dwarf_open_unit *unit;

	while ((unit = TAILQ_FIRST(&units->by_use)))
		unit_close(units, unit);
	*units = (struct dwarf_open_units){0};
}
