/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of programs with split DWARF (parse/dwarf_split.h), with the package
 * of all units or the file of each. A program with the same code and whole debug information has
 * the same ones; test_dwarf_names.c compares such programs with libdw.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/symbolizer/dwarf_names_fixture.h"

enum {
	/* The second unit is much smaller. */
	SECOND_LEAST_BYTES = 50,
	LINES_LEAST_BYTES = 2000,
	WANTED_MAX = 8,
};

struct variant {
	char name[32];
};

/* Each of them has its own directory. */
static struct variant variants[] = {
    {"split_gcc_5"}, {"split_gcc_4"}, {"split_clang_5"}, {"split_clang_4"}};

static void path_of(const struct variant *variant, const char *name, char *path)
{
	snprintf(path, TEXT_BYTES, "%s/%s/%.64s", FIXTURES, variant->name, name);
}

static void open_variant(struct opened *opened, const struct variant *variant, const char *name)
{
	char path[TEXT_BYTES];

	path_of(variant, name, path);
	open_file(opened, path);
}

static int add(struct opened *opened, const struct variant *variant, const char *name)
{
	char path[TEXT_BYTES];

	path_of(variant, name, path);
	return add_further(opened, path);
}

/* Names all code, so that everything that may be wanted is. Returns how many addresses have a
 * line. */
static unsigned int look_up_all(struct opened *opened)
{
	static struct named_frames frames;
	unsigned int lines = 0;

	for (unsigned int i = 0; i < opened->image.segment_count; i++) {
		const struct elf_segment *segment = &opened->image.segments[i];

		for (uint64_t at = 0; segment->executable && at < segment->file_size; at++)
			lines += name(opened, segment->vaddr + at, &frames) == 0 &&
				 frames.frames[0].line > 0;
	}
	return lines;
}

static void expect_wanted(const struct opened *opened, int kind)
{
	const struct namer_wanted *wanted = namer_wanted(&opened->namer);

	cr_assert_eq(wanted ? (int)wanted->kind : NAMER_WANTS_NOTHING, kind);
}

ParameterizedTestParameters(dwarf_split, packages)
{
	return cr_make_param_array(struct variant, variants,
				   sizeof(variants) / sizeof(variants[0]));
}

ParameterizedTest(struct variant *variant, dwarf_split, packages)
{
	struct opened opened, whole;

	open_variant(&opened, variant, "program");
	open_variant(&whole, variant, "whole");
	expect_wanted(&opened, NAMER_WANTS_NOTHING);
	cr_expect_eq(compare_with_original(&opened, &whole, false), 0, "only lines are known");
	cr_expect_gt(look_up_all(&opened), LINES_LEAST_BYTES);
	expect_wanted(&opened, NAMER_WANTS_PACKAGE);
	cr_expect_eq(add(&opened, variant, "inlined.dwo"), -ESTALE, "it is no package");
	const size_t before = namer_bytes(&opened.namer);
	cr_assert_eq(add(&opened, variant, "program.dwp"), 0);
	expect_wanted(&opened, NAMER_WANTS_NOTHING);
	const unsigned int same = compare_with_original(&opened, &whole, true);
	cr_expect_gt(same, CODE_LEAST_BYTES, "%s: %u", variant->name, same);
	cr_expect_gt(namer_bytes(&opened.namer), before);
	expect_wanted(&opened, NAMER_WANTS_NOTHING);
	close_file(&opened);
	close_file(&whole);
}

ParameterizedTestParameters(dwarf_split, files_of_units)
{
	return cr_make_param_array(struct variant, variants,
				   sizeof(variants) / sizeof(variants[0]));
}

ParameterizedTest(struct variant *variant, dwarf_split, files_of_units)
{
	struct opened opened, whole;
	unsigned int same[3] = {0};

	open_variant(&opened, variant, "program");
	open_variant(&whole, variant, "whole");
	look_up_all(&opened);
	expect_wanted(&opened, NAMER_WANTS_PACKAGE);
	namer_do_without(&opened.namer);
	for (unsigned int i = 0; i < 3; i++) {
		same[i] = compare_with_original(&opened, &whole, i == 2);
		const struct namer_wanted *wanted = namer_wanted(&opened.namer);
		if (i == 2) {
			cr_expect_null(wanted);
			break;
		}
		cr_assert_not_null(wanted);
		cr_assert_eq(wanted->kind, NAMER_WANTS_SPLIT);
		const char *slash = strrchr(wanted->split, '/');
		cr_expect_eq(add(&opened, variant, "program.dwp"), -ESTALE, "it is a package");
		cr_assert_eq(add(&opened, variant, slash ? slash + 1 : wanted->split), 0, "%s",
			     wanted->split);
	}
	cr_expect_eq(same[0], 0);
	cr_expect_gt(same[2], CODE_LEAST_BYTES, "%s: %u", variant->name, same[2]);
	cr_expect_gt(same[1], SECOND_LEAST_BYTES, "%u", same[1]);
	cr_expect_gt(same[2], same[1] + SECOND_LEAST_BYTES, "%u", same[1]);
	close_file(&opened);
	close_file(&whole);
}

/* A file that is not the right one says nothing, and one that is missing is wanted once. */
static void use_wrong_files(const struct variant *variant, const struct variant *other)
{
	struct opened opened, whole;
	unsigned int wanted = 0;

	open_variant(&opened, variant, "program");
	open_variant(&whole, variant, "whole");
	look_up_all(&opened);
	cr_assert_eq(add(&opened, other, "program.dwp"), 0);
	cr_expect_eq(compare_with_original(&opened, &whole, false), 0, "it has other units");
	expect_wanted(&opened, NAMER_WANTS_NOTHING);
	close_file(&opened);

	open_variant(&opened, variant, "program");
	look_up_all(&opened);
	namer_do_without(&opened.namer);
	look_up_all(&opened);
	expect_wanted(&opened, NAMER_WANTS_SPLIT);
	cr_assert_eq(add(&opened, other, "inlined.dwo"), 0);
	for (; wanted < WANTED_MAX; wanted++) {
		cr_expect_eq(compare_with_original(&opened, &whole, false), 0);
		if (!namer_wanted(&opened.namer))
			break;
		namer_do_without(&opened.namer);
	}
	cr_expect_eq(wanted, 1, "the second unit: %u", wanted);
	cr_expect_gt(look_up_all(&opened), LINES_LEAST_BYTES);
	close_file(&opened);
	close_file(&whole);
}

Test(dwarf_split, of_another_program_and_missing_files)
{
	/* In DWARF 5, the number of a unit is in its header, and before in its first entry. */
	use_wrong_files(&variants[0], &variants[2]);
	use_wrong_files(&variants[1], &variants[3]);
}
