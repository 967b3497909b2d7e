/* SPDX-License-Identifier: Apache-2.0 */
/* Units of a made-up file, each with one entry that has no attributes. */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <string.h>

#include "symbolizer/namer/dwarf_open_units.h"
#include "tests/support/failing_memory.h"

enum {
	UNIT_BYTES = 12, /* of a header of DWARF 4, and of the entry */
	UNITS = 10000,
	/* More than the limits of dwarf_open_units.c. */
	COUNT_MAX = 5000,
	BYTES_MAX = 13 << 20,
	/* Memory of a unit that has been read, which only a few fit into. */
	LARGE_BYTES = 3 << 20,
};

FAILING_MEMORY;

static uint8_t info[UNITS * UNIT_BYTES];
/* The abbreviation 1 is a unit without children; there are no others. */
static uint8_t abbrevs[] = {1, DW_TAG_compile_unit, DW_CHILDREN_no, 0, 0, 0};
static struct dwarf_file file;
static struct dwarf_open_units units;

static void setup(void)
{
	static const uint8_t unit[UNIT_BYTES] = {UNIT_BYTES - 4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1};

	for (size_t i = 0; i < UNITS; i++)
		memcpy(info + i * UNIT_BYTES, unit, UNIT_BYTES);
	file.sections[DWARF_INFO].contents = (struct elf_buffer){info, sizeof(info)};
	file.sections[DWARF_INFO].size = sizeof(info);
	file.sections[DWARF_ABBREV].contents = (struct elf_buffer){abbrevs, sizeof(abbrevs)};
	file.sections[DWARF_ABBREV].size = sizeof(abbrevs);
}

static void teardown(void)
{
	dwarf_open_units_free(&units);
	cr_expect_eq(units.bytes, 0);
}

TestSuite(dwarf_open_units, .init = setup, .fini = teardown);

static struct dwarf_open_unit *use(uint64_t number)
{
	struct dwarf_reader reader = {.file = &file, .left = UINT32_MAX};

	return dwarf_open_units_use(&units, &reader, number * UNIT_BYTES);
}

static bool is_in(const struct dwarf_units_by_use *queue, uint64_t number)
{
	const struct dwarf_open_unit *unit;

	TAILQ_FOREACH(unit, queue, by_use) {
		if (unit->own.offset == number * UNIT_BYTES)
			return true;
	}
	return false;
}

static bool is_open(uint64_t number)
{
	return is_in(&units.whole, number) || is_in(&units.stripped, number);
}

Test(dwarf_open_units, are_opened_once)
{
	struct dwarf_open_unit *first = use(3), *second = use(4);

	cr_assert_not_null(first);
	cr_assert_not_null(second);
	cr_expect_eq(first->unit.root.tag, DW_TAG_compile_unit);
	cr_expect_eq(first->unit.offset, 3 * UNIT_BYTES);
	cr_expect_neq(first, second);
	cr_expect_eq(use(3), first);
	cr_expect_eq(use(4), second);
	cr_expect_eq(units.count, 2);
}

Test(dwarf_open_units, of_another_file_are_others)
{
	struct dwarf_file copy = file;
	struct dwarf_reader reader = {.file = &copy, .left = UINT32_MAX};
	const struct dwarf_open_unit *unit = use(3);

	cr_expect_neq(dwarf_open_units_use(&units, &reader, 3 * UNIT_BYTES), unit);
	cr_expect_eq(use(3), unit);
}

Test(dwarf_open_units, that_are_many_are_closed_by_their_last_use)
{
	const struct dwarf_open_unit *present = use(0), *again = use(1);

	units.present = present;
	use(2);
	for (uint64_t i = 3; i < UNITS; i++) {
		cr_assert_not_null(use(i));
		cr_assert_eq(use(1), again);
		cr_assert_leq(units.count, COUNT_MAX);
	}
	cr_expect(is_open(0), "the present one");
	cr_expect(is_open(1), "one in use");
	cr_expect_not(is_open(2), "the one that was not used for the longest time");
	cr_expect(is_open(UNITS - 1), "the last one");
}

Test(dwarf_open_units, that_are_large_are_closed_before)
{
	struct dwarf_open_unit *present = use(0);

	units.present = present;
	for (uint64_t i = 1; i < 100; i++) {
		struct dwarf_open_unit *unit = use(i);

		unit->functions.capacity = LARGE_BYTES / sizeof(unit->functions.items[0]);
		dwarf_open_units_account(&units, unit);
		cr_assert_leq(units.bytes, BYTES_MAX);
		cr_assert(is_open(0));
		cr_assert(is_open(i));
	}
	cr_expect_geq(units.count, 4);
	/* These two alone stay open, however large they are. */
	present->functions.capacity = BYTES_MAX / sizeof(present->functions.items[0]);
	dwarf_open_units_account(&units, present);
	cr_expect_eq(units.count, 2);
}

/* They keep little, so that a hundred stay open where twelve whole ones have room. */
Test(dwarf_open_units, are_stripped_before_they_are_closed)
{
	enum {
		MANY = 100,
		ABBREVS_BYTES = 1 << 20
	};
	units.present = use(0);
	for (uint64_t i = 0; i < MANY; i++) {
		struct dwarf_open_unit *unit = use(i);

		cr_assert_not_null(unit);
		unit->abbrevs.capacity = ABBREVS_BYTES / sizeof(unit->abbrevs.items[0]);
		dwarf_open_units_account(&units, unit);
		cr_assert_leq(units.bytes, BYTES_MAX);
	}
	cr_expect_eq(units.count, MANY);
	cr_expect(is_in(&units.whole, 0), "the present one");
	cr_expect(is_in(&units.whole, MANY - 1), "the last one");
	cr_expect(is_in(&units.stripped, 1));
	const size_t bytes = units.stripped_bytes;
	struct dwarf_open_unit *again = use(1);
	cr_expect_eq(again->abbrevs.count, 0);
	cr_expect(is_in(&units.whole, 1));
	cr_expect_eq(units.stripped_bytes, bytes - again->bytes);
}

Test(dwarf_open_units, that_cannot_be_read_are_not_kept)
{
	cr_expect_null(use(UNITS), "beyond the end");
	info[3 * UNIT_BYTES + 2] = 0xff;
	cr_expect_null(use(3), "its length is wrong");
	info[4 * UNIT_BYTES + UNIT_BYTES - 1] = 2;
	cr_expect_null(use(4), "it has an unknown abbreviation");
	failing_memory.calloc = true;
	cr_expect_null(use(5));
	failing_memory.calloc = false;
	cr_expect_eq(units.count, 0);
	cr_expect_not_null(use(5));
}
