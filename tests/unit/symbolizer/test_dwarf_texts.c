/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/namer/dwarf_texts.h"
#include "tests/support/failing_memory.h"

enum {
	MANY = 100000,
};

FAILING_MEMORY;

static struct dwarf_texts texts;

static void teardown(void)
{
	dwarf_texts_free(&texts);
	cr_expect_eq(texts.bytes, 0);
}

TestSuite(dwarf_texts, .fini = teardown);

static const struct dwarf_file *file_of(uintptr_t number)
{
	return (const struct dwarf_file *)number;
}

static const struct dwarf_text *find(uintptr_t file, uint64_t at, uint64_t number)
{
	return dwarf_texts_find(&texts, &(struct dwarf_text_key){file_of(file), at, number});
}

static const struct dwarf_text *keep(uintptr_t file, uint64_t at, uint64_t number, const char *text)
{
	return dwarf_texts_keep(&texts, &(struct dwarf_text_key){file_of(file), at, number}, text,
				true, 7);
}

Test(dwarf_texts, are_found_by_all_of_their_key)
{
	cr_expect_null(find(1, 2, 3));
	cr_expect_str_eq(keep(1, 2, 3, "name")->text, "name");
	const struct dwarf_text *found = find(1, 2, 3);
	cr_assert_not_null(found);
	cr_expect_str_eq(found->text, "name");
	cr_expect_eq(found->start_line, 7);
	cr_expect(found->mangled);
	cr_expect_null(find(9, 2, 3));
	cr_expect_null(find(1, 9, 3));
	cr_expect_null(find(1, 2, DWARF_TEXT_NAME));
	cr_expect_str_eq(keep(1, 2, 3, "other")->text, "other");
	cr_expect_str_eq(find(1, 2, 3)->text, "other");
}

Test(dwarf_texts, too_long_are_cut)
{
	char text[2 * DWARF_TEXT_BYTES];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	cr_expect_eq(strlen(keep(1, 2, 3, text)->text), DWARF_TEXT_BYTES - 1);
}

/* None is another one's, however many there are, and some thousand are kept. */
Test(dwarf_texts, that_are_many_take_limited_memory)
{
	unsigned int kept = 0;
	char text[32];

	for (uint64_t i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)i);
		cr_assert_str_eq(keep(1, i, DWARF_TEXT_NAME, text)->text, text);
		cr_assert_leq(texts.bytes, DWARF_TEXTS_BYTES_MAX);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		const struct dwarf_text *found = find(1, i, DWARF_TEXT_NAME);

		snprintf(text, sizeof(text), "%llu", (unsigned long long)i);
		cr_assert(!found || !strcmp(found->text, text));
		kept += found != NULL;
	}
	cr_expect_gt(kept, 4000, "%u", kept);
	cr_expect_eq(kept, texts.count);
}

Test(dwarf_texts, that_are_long_take_limited_memory)
{
	char text[DWARF_TEXT_BYTES];
	size_t most = 0;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	for (uint64_t i = 0; i < MANY; i++) {
		cr_assert_str_eq(keep(1, i, DWARF_TEXT_NAME, text)->text, text);
		cr_assert_str_eq(find(1, i, DWARF_TEXT_NAME)->text, text);
		cr_assert_leq(texts.bytes, DWARF_TEXTS_BYTES_MAX);
		most = texts.bytes > most ? texts.bytes : most;
	}
	cr_expect_gt(most, DWARF_TEXTS_BYTES_MAX / 2);
}

Test(dwarf_texts, without_memory_are_not_kept)
{
	failing_memory.calloc = true;
	cr_expect_null(keep(1, 2, 3, "no places"));
	failing_memory.calloc = false;
	failing_memory.malloc = true;
	cr_expect_null(keep(1, 2, 3, "no text"));
	failing_memory.malloc = false;
	cr_expect_null(find(1, 2, 3));
	for (uint64_t i = 0; i < 1000; i++) {
		failing_memory.calloc = i > 100;
		cr_assert_str_eq(keep(1, i, 3, "enough places")->text, "enough places");
	}
}
