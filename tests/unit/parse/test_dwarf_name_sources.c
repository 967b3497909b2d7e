/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dwarf.h>

#include "parse/dwarf_name_sources.h"

enum {
	UNIT = 0x1000, /* where the unit starts */
	MANY = 100000,
};

static const struct dwarf_unit unit = {.offset = UNIT};
static struct dwarf_name_sources sources;

static void teardown(void)
{
	dwarf_name_sources_free(&sources);
}

TestSuite(dwarf_name_sources, .fini = teardown);

static struct dwarf_entry entry_at(uint64_t offset)
{
	return (struct dwarf_entry){.offset = offset, .tag = DW_TAG_subprogram};
}

static void give(struct dwarf_entry *entry, enum dwarf_attribute attribute, uint64_t number)
{
	entry->values[attribute] = (struct dwarf_value){.form = DW_FORM_strp, .number = number};
}

static void add(const struct dwarf_entry *entry)
{
	dwarf_name_sources_add(&sources, &unit, entry);
}

static bool is_kept(uint64_t offset)
{
	struct dwarf_entry found;

	return dwarf_name_sources_find(&sources, &unit, offset, &found);
}

Test(dwarf_name_sources, have_the_attribute_that_leads_to_the_name)
{
	static const enum dwarf_attribute attributes[] = {DWARF_NAME, DWARF_LINKAGE_NAME,
							  DWARF_ORIGIN};
	struct dwarf_entry found;

	for (uint64_t i = 0; i < 3; i++) {
		struct dwarf_entry entry = entry_at(UNIT + 11 + 10 * i);

		give(&entry, attributes[i], 100 + i);
		give(&entry, DWARF_DECL_LINE, 7 + i);
		add(&entry);
	}
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert(dwarf_name_sources_find(&sources, &unit, UNIT + 11 + 10 * i, &found));
		cr_expect_eq(found.offset, UNIT + 11 + 10 * i);
		cr_expect_eq(found.tag, DW_TAG_subprogram);
		cr_expect_eq(found.values[DWARF_DECL_LINE].number, 7 + i);
		for (uint64_t j = 0; j < 3; j++) {
			cr_expect_eq(found.values[attributes[j]].form, i == j ? DW_FORM_strp : 0);
			cr_expect_eq(found.values[attributes[j]].number, i == j ? 100 + i : 0);
		}
	}
	cr_expect_not(is_kept(UNIT + 10));
	cr_expect_not(is_kept(UNIT + 12));
	cr_expect_not(is_kept(11));
	cr_expect_not(is_kept(UNIT + 41));
}

Test(dwarf_name_sources, prefer_the_linkage_name)
{
	struct dwarf_entry entry = entry_at(UNIT + 11), found;

	give(&entry, DWARF_NAME, 1);
	give(&entry, DWARF_LINKAGE_NAME, 2);
	add(&entry);
	cr_assert(dwarf_name_sources_find(&sources, &unit, UNIT + 11, &found));
	cr_expect_eq(found.values[DWARF_LINKAGE_NAME].number, 2);
	cr_expect_eq(found.values[DWARF_NAME].form, 0);
}

/* What does not fit, or is not all that leads to the name, is read from the entry. */
Test(dwarf_name_sources, are_not_kept_in_part)
{
	struct dwarf_entry both = entry_at(UNIT + 1), none = entry_at(UNIT + 2),
			   far_text = entry_at(UNIT + 3), far_line = entry_at(UNIT + 4),
			   far_entry = entry_at(UNIT + 5 + (1ull << 32)),
			   before = entry_at(UNIT + 6), after = entry_at(UNIT + 7);

	give(&both, DWARF_LINKAGE_NAME, 1);
	give(&both, DWARF_ORIGIN, 2);
	add(&both);
	add(&none);
	give(&far_text, DWARF_NAME, 1ull << 32);
	add(&far_text);
	give(&far_line, DWARF_NAME, 1);
	give(&far_line, DWARF_DECL_LINE, 1ull << 32);
	add(&far_line);
	give(&far_entry, DWARF_NAME, 1);
	add(&far_entry);
	cr_expect_eq(sources.count, 0);
	give(&after, DWARF_NAME, 1);
	add(&after);
	add(&after);
	give(&before, DWARF_NAME, 1);
	add(&before);
	cr_expect_eq(sources.count, 1);
	cr_expect(is_kept(after.offset));
}

Test(dwarf_name_sources, that_are_many_take_limited_memory)
{
	for (uint64_t i = 0; i < MANY; i++) {
		struct dwarf_entry entry = entry_at(UNIT + 1 + i);

		give(&entry, DWARF_NAME, i);
		add(&entry);
	}
	cr_expect_leq(sources.capacity * sizeof(sources.items[0]), 1 << 20);
	cr_expect_gt(sources.count, 60000);
	cr_expect(is_kept(UNIT + sources.count));
	cr_expect_not(is_kept(UNIT + sources.count + 1));
}
