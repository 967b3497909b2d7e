/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see dwarf_name_sources.h. */
#include "parse/dwarf_name_sources.h"

#include <dwarf.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/search.h"

enum {
	/* SQLite as one unit has 3,000, HarfBuzz 10,600. More: their names are read from their
	 * entries. */
	SOURCES_MAX = 1 << 16,
};

/* Returns which attribute of an entry leads to its name; DWARF_ATTRIBUTE_COUNT if none does, or if
 * one alone is not enough. */
static uint8_t attribute_of(const struct dwarf_entry *entry)
{
	const bool has_linkage_name = entry->values[DWARF_LINKAGE_NAME].form;
	const bool has_name = has_linkage_name || entry->values[DWARF_NAME].form;

	if (has_name == !!entry->values[DWARF_ORIGIN].form)
		return DWARF_ATTRIBUTE_COUNT;
	if (!has_name)
		return DWARF_ORIGIN;
	return has_linkage_name ? DWARF_LINKAGE_NAME : DWARF_NAME;
}

void dwarf_name_sources_add(struct dwarf_name_sources *sources, const struct dwarf_unit *unit,
			    const struct dwarf_entry *entry)
{
	const uint64_t at = entry->offset - unit->offset;
	const uint64_t line = entry->values[DWARF_DECL_LINE].number;
	const uint8_t attribute = attribute_of(entry);

	if (attribute == DWARF_ATTRIBUTE_COUNT)
		return;
	const struct dwarf_value *value = &entry->values[attribute];
	if (at > UINT32_MAX || line > UINT32_MAX || value->number > UINT32_MAX ||
	    (sources->count && at <= sources->items[sources->count - 1].entry) ||
	    ARRAY_RESERVE(sources->items, sources->capacity, sources->count + 1, 64, SOURCES_MAX) <
		0)
		return;
	sources->items[sources->count++] =
	    (struct dwarf_name_source){.entry = (uint32_t)at,
				       .line = (uint32_t)line,
				       .number = (uint32_t)value->number,
				       .form = value->form,
				       .attribute = attribute};
}

bool dwarf_name_sources_find(const struct dwarf_name_sources *sources,
			     const struct dwarf_unit *unit, uint64_t offset,
			     struct dwarf_entry *entry)
{
	const uint64_t at = offset - unit->offset;
	const size_t first = SEARCH_LOWER_BOUND(i, sources->count, sources->items[i].entry < at);

	if (first == sources->count || sources->items[first].entry != at)
		return false;
	const struct dwarf_name_source *source = &sources->items[first];
	*entry = (struct dwarf_entry){.offset = offset, .tag = DW_TAG_subprogram};
	entry->values[DWARF_DECL_LINE].number = source->line;
	entry->values[source->attribute] =
	    (struct dwarf_value){.form = source->form, .number = source->number};
	return true;
}

void dwarf_name_sources_free(struct dwarf_name_sources *sources)
{
	free(sources->items);
	*sources = (struct dwarf_name_sources){0};
}
