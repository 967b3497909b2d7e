/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see dwarf_open_units.h. */
#include "symbolizer/namer/dwarf_open_units.h"

#include <stdlib.h>

enum {
	/* Units, and the memory that they may take together. With all that is inlined, those of
	 * glibc that have code take 11 MB, and the 175 of CPython 9 MB. */
	UNITS_MAX = 4096,
	BYTES_MAX = 12 << 20,
	STRIPPED_BYTES_MAX = BYTES_MAX / 2,
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

static struct dwarf_units_by_use *queue_of(struct dwarf_open_units *units,
					   const struct dwarf_open_unit *unit)
{
	return unit->is_stripped ? &units->stripped : &units->whole;
}

/* Counts the memory of a unit as it is now. */
static void unit_count(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	const size_t before = unit->bytes;

	unit->bytes = unit_bytes(unit);
	units->bytes += unit->bytes - before;
	if (unit->is_stripped)
		units->stripped_bytes += unit->bytes - before;
}

static void unit_close(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	TAILQ_REMOVE(queue_of(units, unit), unit, by_use);
	LIST_REMOVE(unit, in_list);
	units->count--;
	units->bytes -= unit->bytes;
	if (unit->is_stripped)
		units->stripped_bytes -= unit->bytes;
	unit_free(unit);
}

static void unit_strip(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	TAILQ_REMOVE(&units->whole, unit, by_use);
	dwarf_abbrevs_free(&unit->abbrevs);
	dwarf_functions_strip(&unit->functions);
	dwarf_lines_strip(&unit->lines);
	unit->is_stripped = true;
	units->stripped_bytes += unit->bytes;
	unit_count(units, unit);
	TAILQ_INSERT_TAIL(&units->stripped, unit, by_use);
}

/* Returns the unit that was not used for the longest time, of those that are not in hand and not
 * stripped, or NULL if there is none. */
static struct dwarf_open_unit *unit_unused(struct dwarf_open_units *units)
{
	struct dwarf_open_unit *unit = TAILQ_FIRST(&units->whole);

	if (unit && unit == units->present)
		unit = TAILQ_NEXT(unit, by_use);
	return unit && unit != TAILQ_LAST(&units->whole, dwarf_units_by_use) ? unit : NULL;
}

/* Closes a unit that is stripped or, if there is none, another one. Returns false if none can be
 * closed. */
static bool close_one(struct dwarf_open_units *units)
{
	struct dwarf_open_unit *unit = TAILQ_FIRST(&units->stripped);

	if (!unit)
		unit = unit_unused(units);
	if (unit)
		unit_close(units, unit);
	return unit;
}

/* Strips a unit, or closes one. Returns false if there is none for that. */
static bool give_back(struct dwarf_open_units *units)
{
	struct dwarf_open_unit *unit =
	    units->stripped_bytes < STRIPPED_BYTES_MAX ? unit_unused(units) : NULL;

	if (!unit)
		return close_one(units);
	unit_strip(units, unit);
	return true;
}

void dwarf_open_units_account(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	unit_count(units, unit);
	while (units->bytes > BYTES_MAX && give_back(units))
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

/* Makes a unit the one that was used last. */
static void unit_use(struct dwarf_open_units *units, struct dwarf_open_unit *unit)
{
	TAILQ_REMOVE(queue_of(units, unit), unit, by_use);
	TAILQ_INSERT_TAIL(&units->whole, unit, by_use);
	if (unit->is_stripped)
		units->stripped_bytes -= unit->bytes;
	unit->is_stripped = false;
}

struct dwarf_open_unit *dwarf_open_units_use(struct dwarf_open_units *units,
					     struct dwarf_reader *reader, uint64_t offset)
{
	struct dwarf_open_unit *unit;

	if (!units->whole.tqh_last) {
		TAILQ_INIT(&units->whole);
		TAILQ_INIT(&units->stripped);
	}
	/* Units that a file puts into one list only cost it time. */
	LIST_FOREACH(unit, &units->lists[offset % DWARF_OPEN_LISTS], in_list) {
		if (unit->own_file == reader->file && unit->own.offset == offset) {
			unit_use(units, unit);
			return unit;
		}
	}
	if (units->count == UNITS_MAX)
		close_one(units);
	unit = unit_read(reader, offset);
	if (!unit)
		return NULL;
	TAILQ_INSERT_TAIL(&units->whole, unit, by_use);
	LIST_INSERT_HEAD(&units->lists[offset % DWARF_OPEN_LISTS], unit, in_list);
	units->count++;
	dwarf_open_units_account(units, unit);
	return unit;
}

void dwarf_open_units_free(struct dwarf_open_units *units)
{
	while (!TAILQ_EMPTY(&units->whole))
		unit_close(units, TAILQ_FIRST(&units->whole));
	while (!TAILQ_EMPTY(&units->stripped))
		unit_close(units, TAILQ_FIRST(&units->stripped));
	*units = (struct dwarf_open_units){0};
}
