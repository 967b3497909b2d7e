/* SPDX-License-Identifier: Apache-2.0 */
/* Names of generated code: at each address, the entry that was added last counts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/worker/jit_symbols.h"
#include "symbolizer/worker/limits.h"

static struct jit_symbols symbols;
static uint64_t last_id;
static bool replaced;
static uint64_t time_ns; /* of what is added */

static int add(uint64_t start, uint64_t end, const char *name)
{
	const struct jit_range range = {
	    .start = start, .end = end, .id = ++last_id, .time_ns = time_ns};

	return jit_symbols_add(&symbols, &range, name, strlen(name));
}

static void sort(bool expected)
{
	replaced = false;
	cr_assert_eq(jit_symbols_sort(&symbols, &replaced), 0);
	cr_expect_eq(replaced, expected);
}

static const char *find(uint64_t address)
{
	const struct jit_entry *entry = jit_symbols_find(&symbols, address);

	return entry ? jit_symbols_name(&symbols, entry) : "none";
}

static void teardown(void)
{
	jit_symbols_free(&symbols);
}

TestSuite(jit_symbols, .fini = teardown);

Test(jit_symbols, there_is_nothing_at_first)
{
	sort(false);
	cr_expect_str_eq(find(0), "none");
}

Test(jit_symbols, an_entry_has_its_addresses)
{
	cr_assert_eq(add(0x20, 0x30, "g"), 0);
	cr_assert_eq(add(0x10, 0x18, "f"), 0);
	sort(false);
	cr_expect_str_eq(find(0xf), "none");
	cr_expect_str_eq(find(0x10), "f");
	cr_expect_str_eq(find(0x17), "f");
	cr_expect_str_eq(find(0x18), "none");
	cr_expect_str_eq(find(0x2f), "g");
	cr_expect_str_eq(find(0x30), "none");
	cr_expect_str_eq(find(UINT64_MAX), "none");
}

Test(jit_symbols, a_later_entry_replaces_a_part)
{
	add(0x1000, 0x1100, "f");
	add(0x1100, 0x1200, "g");
	sort(false);
	const uint64_t g = jit_symbols_find(&symbols, 0x1180)->id;
	add(0x1080, 0x1180, "h");
	sort(true);
	cr_expect_str_eq(find(0x107f), "f");
	cr_expect_str_eq(find(0x1080), "h");
	cr_expect_str_eq(find(0x117f), "h");
	cr_expect_str_eq(find(0x1180), "g");
	cr_expect_eq(jit_symbols_find(&symbols, 0x1180)->id, g, "the rest is the same code");
}

Test(jit_symbols, an_entry_is_split_by_a_later_one_in_it)
{
	add(0, 0x1000, "all");
	add(0x10, 0x20, "part");
	sort(false);
	cr_expect_str_eq(find(0xf), "all");
	cr_expect_str_eq(find(0x10), "part");
	cr_expect_str_eq(find(0x20), "all");
	cr_expect_str_eq(find(0xfff), "all");
	cr_expect_eq(symbols.count, 3);
	add(0x2000, 0x2001, "elsewhere");
	sort(false);
}

/* The truth is an array with the name of each address. */
Test(jit_symbols, random_entries_are_as_in_a_table_of_all_addresses)
{
	enum {
		ADDRESSES = 512
	};
	char truth[ADDRESSES][8] = {0}, name[8];

	srand(42);
	for (int round = 0; round < 60; round++) {
		for (int i = rand() % 20; i >= 0; i--) {
			const int start = rand() % ADDRESSES;
			const int end = start + 1 + rand() % (ADDRESSES - start);

			snprintf(name, sizeof(name), "%d", rand() % 10000);
			cr_assert_eq(add((uint64_t)start, (uint64_t)end, name), 0);
			for (int a = start; a < end; a++)
				memcpy(truth[a], name, sizeof(name));
		}
		cr_assert_eq(jit_symbols_sort(&symbols, &replaced), 0);
		for (uint64_t a = 0; a < ADDRESSES; a++)
			cr_assert_str_eq(find(a), truth[a][0] ? truth[a] : "none", "round %d",
					 round);
		for (size_t i = 1; i < symbols.count; i++)
			cr_assert_leq(symbols.entries[i - 1].end, symbols.entries[i].start);
	}
}

/* --- lines and moves --- */

static int add_line(uint64_t offset, uint32_t line, const char *file)
{
	return jit_symbols_add_line(&symbols, offset, line, file, file ? strlen(file) : 0);
}

/* The line at an address as "file:line", with the file of the function. */
static const char *find_line(uint64_t address, uint64_t shift)
{
	static char text[64];
	const struct jit_entry *entry = jit_symbols_find(&symbols, address);
	const char *file;

	cr_assert_not_null(entry);
	const uint32_t line = jit_symbols_line(&symbols, entry, address, shift, &file);
	snprintf(text, sizeof(text), "%s:%u", file, line);
	return text;
}

Test(jit_symbols, an_entry_has_the_lines_that_were_added_before_it)
{
	cr_expect_eq(add_line(0, 1, NULL), -ENOENT, "there is no line before");
	add_line(4, 10, "a.js");
	add_line(0, 9, NULL);
	add_line(8, 11, NULL);
	add_line(12, 1, "inlined.js");
	add_line(16, 12, "a.js");
	add(0x100, 0x120, "f");
	add_line(0, 7, "b.js");
	jit_symbols_drop_lines(&symbols);
	add(0x120, 0x130, "g");
	add_line(2, 20, "b.js");
	sort(false);
	add_line(3, 21, NULL);
	add(0x130, 0x140, "h");
	sort(false);
	cr_expect_str_eq(find_line(0x100, 0), "a.js:9");
	cr_expect_str_eq(find_line(0x103, 0), "a.js:9");
	cr_expect_str_eq(find_line(0x104, 0), "a.js:10");
	cr_expect_str_eq(find_line(0x10b, 0), "a.js:11");
	cr_expect_str_eq(find_line(0x10c, 0), "a.js:0", "it is in another file");
	cr_expect_str_eq(find_line(0x11f, 0), "a.js:12");
	cr_expect_str_eq(find_line(0x100, 8), "a.js:11");
	cr_expect_str_eq(find_line(0x120, 0), ":0");
	cr_expect_str_eq(find_line(0x131, 0), "b.js:0", "before the first line");
	cr_expect_str_eq(find_line(0x133, 0), "b.js:21");
}

Test(jit_symbols, a_part_of_an_entry_has_the_lines_of_that_part)
{
	add_line(0, 1, "a.js");
	add_line(0x50, 2, NULL);
	add(0x1000, 0x1100, "f");
	add(0x1000, 0x1040, "g");
	sort(false);
	cr_expect_str_eq(find_line(0x1040, 0), "a.js:1");
	cr_expect_str_eq(find_line(0x1050, 0), "a.js:2");
}

static int move(uint64_t from, uint64_t start, uint64_t end)
{
	const struct jit_range range = {
	    .start = start, .end = end, .id = ++last_id, .time_ns = time_ns};

	return jit_symbols_move(&symbols, from, &range);
}

Test(jit_symbols, moved_code_has_its_name_and_lines)
{
	add_line(0, 1, "a.js");
	add_line(8, 2, NULL);
	add(0x100, 0x110, "f");
	sort(false);
	add(0x200, 0x210, "g");
	cr_expect_eq(move(0x100, 0x300, 0x310), 0);
	cr_expect_eq(move(0x200, 0x400, 0x410), 0);
	cr_expect_eq(move(0x300, 0x500, 0x510), 0);
	cr_expect_eq(move(0x600, 0x100, 0x110), -ENOENT);
	add(0x100, 0x110, "other");
	sort(true);
	cr_expect_str_eq(find(0x100), "other");
	cr_expect_str_eq(find(0x300), "f");
	cr_expect_str_eq(find(0x408), "g");
	cr_expect_str_eq(find(0x500), "f");
	cr_expect_str_eq(find_line(0x507, 0), "a.js:1");
	cr_expect_str_eq(find_line(0x508, 0), "a.js:2");
	cr_expect_neq(jit_symbols_find(&symbols, 0x500)->id, jit_symbols_find(&symbols, 0x300)->id);
}

/* What is not used any more is dropped; what is, and what is to be, stays. */
Test(jit_symbols, lines_that_are_replaced_again_and_again_take_no_memory)
{
	char file[32];

	for (unsigned int round = 0; round < 2000; round++) {
		snprintf(file, sizeof(file), "file%u.js", round % 7);
		for (uint64_t i = 0; i < 20; i++) {
			for (uint32_t line = 0; line < 30; line++)
				cr_assert_eq(add_line(line, round + line, line ? NULL : file), 0);
			cr_assert_eq(add(i * 32, i * 32 + 32, "f"), 0);
		}
		cr_assert_eq(add_line(0, 5, "next.js"), 0);
		cr_assert_eq(jit_symbols_sort(&symbols, &replaced), 0);
		cr_assert_eq(add_line(1, 6, NULL), 0);
		cr_assert_eq(add(0x10000, 0x10010, "last"), 0);
		cr_assert_eq(jit_symbols_sort(&symbols, &replaced), 0);
		cr_assert_str_eq(find_line(0x10008, 0), "next.js:6");
		cr_assert_eq(symbols.entries[0].line_count, 30);
		const char *name;
		cr_assert_eq(jit_symbols_line(&symbols, &symbols.entries[3], 3 * 32 + 7, 0, &name),
			     round + 7);
		cr_assert_str_eq(name, file);
	}
	cr_expect_leq(jit_symbols_bytes(&symbols), 300 << 10, "%zu", jit_symbols_bytes(&symbols));
}

Test(jit_symbols, there_is_a_limit_of_lines)
{
	uint64_t start = 0;
	int r = 0;

	for (uint32_t i = 0; i < LIMIT_JIT_ENTRY_LINES; i++)
		cr_assert_eq(add_line(i, i, "a.js"), 0);
	cr_expect_eq(add_line(0, 0, "a.js"), -E2BIG, "of one entry");
	for (uint32_t i = 0; !r && i < 2 * LIMIT_JIT_LINES; i++) {
		if (i % 1000 == 0) {
			start += 16;
			add(start, start + 16, "f");
		}
		r = add_line(i, i, "a.js");
	}
	cr_expect_eq(r, -E2BIG, "of all");
	cr_expect_eq(symbols.line_count, LIMIT_JIT_LINES);
	cr_expect_eq(add(8, 16, "f"), 0, "there are names without lines");
	sort(false);
}

/* --- times --- */

static const char *find_at(uint64_t address, uint64_t ns)
{
	const struct jit_entry *entry = jit_symbols_find_at(&symbols, address, ns);

	return entry ? jit_symbols_name(&symbols, entry) : "none";
}

Test(jit_symbols, an_address_has_the_name_of_the_code_that_was_there)
{
	time_ns = 10;
	add(0x100, 0x120, "f");
	time_ns = 20;
	add(0x100, 0x110, "g");
	sort(false);
	time_ns = 30;
	add(0x108, 0x130, "h");
	sort(true);
	cr_expect_str_eq(find_at(0x100, 10), "f");
	cr_expect_str_eq(find_at(0x100, 19), "f");
	cr_expect_str_eq(find_at(0x100, 20), "g");
	cr_expect_str_eq(find_at(0x10f, 19), "f");
	cr_expect_str_eq(find_at(0x10f, 29), "g");
	cr_expect_str_eq(find_at(0x10f, 30), "h");
	cr_expect_str_eq(find_at(0x11f, 29), "f");
	cr_expect_str_eq(find_at(0x100, 9), "g", "what was there then is not known");
	cr_expect_str_eq(find_at(0x12f, 29), "h");
	cr_expect_str_eq(find_at(0x130, 29), "none");
	cr_expect_eq(symbols.replaced_ns, 30);
}

Test(jit_symbols, without_times_the_last_name_counts)
{
	add(0x100, 0x120, "f");
	add(0x100, 0x120, "g");
	sort(false);
	cr_expect_str_eq(find_at(0x100, 0), "g");
	cr_expect_eq(symbols.replaced_ns, 0);
	cr_expect_null(symbols.replaced);
}

Test(jit_symbols, only_the_last_replaced_code_is_kept)
{
	char name[16];

	for (time_ns = 1; time_ns <= 2 * JIT_REPLACED_COUNT; time_ns++) {
		snprintf(name, sizeof(name), "f%d", (int)time_ns);
		add(0x100, 0x120, name);
		cr_assert_eq(jit_symbols_sort(&symbols, &replaced), 0);
	}
	for (uint64_t ns = JIT_REPLACED_COUNT; ns <= 2 * JIT_REPLACED_COUNT; ns++) {
		snprintf(name, sizeof(name), "f%d", (int)ns);
		cr_expect_str_eq(find_at(0x100, ns), name);
	}
	cr_expect_str_eq(find_at(0x100, JIT_REPLACED_COUNT - 1), name, "as if it was the last");
}

Test(jit_symbols, what_is_replaced_again_and_again_takes_no_memory)
{
	char name[200];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	for (int round = 0; round < 1000; round++) {
		for (uint64_t i = 0; i < 100; i++)
			cr_assert_eq(add(i * 16, i * 16 + 16, name), 0);
		cr_assert_eq(jit_symbols_sort(&symbols, &replaced), 0);
		cr_assert_eq(symbols.count, 100);
	}
	cr_expect_leq(jit_symbols_bytes(&symbols), 200 << 10, "%zu", jit_symbols_bytes(&symbols));
}

Test(jit_symbols, there_is_a_limit_of_entries)
{
	/* Each of them splits the first one. */
	cr_assert_eq(add(0, 1ull << 40, "all"), 0);
	for (uint64_t i = 1; i < LIMIT_JIT_ENTRIES; i++)
		cr_assert_eq(add(i * 16, i * 16 + 8, "f"), 0);
	cr_expect_eq(add(8, 9, "f"), -E2BIG);
	sort(false);
	cr_expect_eq(symbols.count, 2 * LIMIT_JIT_ENTRIES - 1);
	cr_expect_eq(add(8, 9, "f"), -E2BIG);
	cr_expect_str_eq(find(24), "all");
}

Test(jit_symbols, there_is_a_limit_of_text)
{
	static char name[1 << 20];
	int r = 0, count = 0;

	memset(name, 'n', sizeof(name) - 1);
	for (; !r && count < 100; count++)
		r = add(16, 32, name);
	cr_expect_eq(r, -E2BIG);
	cr_expect_eq(count, LIMIT_JIT_TEXT_BYTES / (int)sizeof(name) + 1);
}
