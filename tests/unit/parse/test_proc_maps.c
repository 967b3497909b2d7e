/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "parse/proc_maps.h"

enum { LINES_MAX = 1024 };

struct lines {
	struct proc_mapping lines[LINES_MAX];
	unsigned int count, skipped;
};

static void on_line(void *context, const struct proc_mapping *mapping)
{
	struct lines *lines = context;

	cr_assert_lt(lines->count, LINES_MAX);
	lines->lines[lines->count++] = *mapping;
}

/* Parses from memory that ends directly after the text, so that reading on is a crash. */
static struct lines parse_bytes(const char *text, size_t length)
{
	static struct lines lines;
	char *copy = malloc(length ? length : 1);

	memcpy(copy, text, length);
	lines = (struct lines){0};
	lines.skipped = proc_maps_parse(copy, length, on_line, &lines);
	for (unsigned int i = 0; i < lines.count; i++) {
		cr_assert_leq(lines.lines[i].path_length, length);
		cr_assert(lines.lines[i].path >= copy && lines.lines[i].path + lines.lines[i].path_length <= copy + length);
		cr_assert_lt(lines.lines[i].start, lines.lines[i].end);
		/* The tests use the path after the copy is freed: point into the literal. */
		lines.lines[i].path = text + (lines.lines[i].path - copy);
	}
	free(copy);
	return lines;
}

static struct lines parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static void expect_path(const struct proc_mapping *m, const char *path)
{
	cr_assert_eq(m->path_length, strlen(path), "%.*s", (int)m->path_length, m->path);
	cr_assert_eq(memcmp(m->path, path, m->path_length), 0, "%.*s", (int)m->path_length, m->path);
}

Test(proc_maps, a_line_of_a_file_is_parsed)
{
	struct lines lines = parse("7f5a1c000000-7f5a1c021000 r-xp 00026000 fe:01 10166445                   /usr/lib/libc.so.6\n");

	cr_assert_eq(lines.count, 1);
	cr_assert_eq(lines.skipped, 0);
	cr_assert_eq(lines.lines[0].start, 0x7f5a1c000000);
	cr_assert_eq(lines.lines[0].end, 0x7f5a1c021000);
	cr_assert_eq(lines.lines[0].file_offset, 0x26000);
	cr_assert_eq(lines.lines[0].device_major, 0xfe);
	cr_assert_eq(lines.lines[0].device_minor, 1);
	cr_assert_eq(lines.lines[0].inode, 10166445);
	cr_assert(lines.lines[0].executable);
	expect_path(&lines.lines[0], "/usr/lib/libc.so.6");
}

Test(proc_maps, all_kinds_of_lines_are_parsed)
{
	struct lines lines = parse("00400000-00401000 r--p 00000000 00:1b 5 /a b\n"
				   "7f0000000000-7f0000001000 rwxs 00000000 00:00 0 \n"
				   "7f0000001000-7f0000002000 ---p 00000000 00:00 0\n"
				   "7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]\n"
				   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
				   "1-2 r-xp ffffffffffffffff ffffffff:ffffffff 18446744073709551615 /x (deleted)");
	static const char *const paths[] = {"/a b", "", "", "[vdso]", "[vsyscall]", "/x (deleted)"};
	static const bool executable[] = {false, true, false, true, true, true};

	cr_assert_eq(lines.count, 6);
	cr_assert_eq(lines.skipped, 0);
	for (unsigned int i = 0; i < 6; i++) {
		expect_path(&lines.lines[i], paths[i]);
		cr_assert_eq(lines.lines[i].executable, executable[i]);
	}
	cr_assert_eq(lines.lines[5].file_offset, UINT64_MAX);
	cr_assert_eq(lines.lines[5].inode, UINT64_MAX);
	cr_assert_eq(lines.lines[5].device_major, UINT32_MAX);
	cr_assert_eq(lines.lines[4].end, 0xffffffffff601000);
}

/* Each of these lines is malformed; the line after it is valid. */
Test(proc_maps, malformed_lines_are_skipped)
{
	static const char *const bad[] = {
		"",
		" ",
		"-",
		"hello",
		"400000",
		"400000-",
		"400000-401000",
		"400000-401000 ",
		"400000-401000 r-xp",
		"400000-401000 r-xp ",
		"400000-401000 r-xp 0",
		"400000-401000 r-xp 0 ",
		"400000-401000 r-xp 0 00",
		"400000-401000 r-xp 0 00:",
		"400000-401000 r-xp 0 00:00",
		"400000-401000 r-xp 0 00:00 ",
		"400000-401000 r-xp 0 00:00 x",
		"400000-401000 r-x 0 00:00 0",
		"400000-401000 r-xpp 0 00:00 0",
		"400000-401000  r-xp 0 00:00 0",
		"400000 401000 r-xp 0 00:00 0",
		" 400000-401000 r-xp 0 00:00 0",
		"0x400000-0x401000 r-xp 0 00:00 0",
		"40000G-401000 r-xp 0 00:00 0",
		"+400000-401000 r-xp 0 00:00 0",
		"-400000-401000 r-xp 0 00:00 0",
		"40A000-40B000 r-xp 0 00:00 0",
		"401000-400000 r-xp 0 00:00 0",
		"400000-400000 r-xp 0 00:00 0",
		"10000000000000000-10000000000000001 r-xp 0 00:00 0",
		"400000-fffffffffffffffff r-xp 0 00:00 0",
		"400000-401000 r-xp 10000000000000000 00:00 0",
		"400000-401000 r-xp 0 100000000:00 0",
		"400000-401000 r-xp 0 00:100000000 0",
		"400000-401000 r-xp 0 00:00 18446744073709551616",
		"400000-401000 r-xp 0 00-00 0",
	};
	static const char good[] = "\n500000-501000 r-xp 0 00:00 0 /good\n";

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text), "%s%s", bad[i], good);
		struct lines lines = parse(text);
		cr_assert_eq(lines.count, 1, "'%s'", bad[i]);
		cr_assert_eq(lines.skipped, 1, "'%s'", bad[i]);
		cr_assert_eq(lines.lines[0].start, 0x500000);
		/* The text ends there, at the end of the memory. */
		lines = parse(bad[i]);
		cr_assert_eq(lines.count, 0, "'%s'", bad[i]);
	}
}

/* Whole lines are delivered, and the rest is skipped. */
Test(proc_maps, a_text_may_be_cut_anywhere)
{
	static const char text[] = "400000-401000 r-xp 00001000 fe:00 12 /one\n600000-601000 r-xp 00002000 fe:00 34 /two\n";

	for (size_t length = 0; length < sizeof(text); length++) {
		struct lines lines = parse_bytes(text, length);

		cr_assert_leq(lines.count + lines.skipped, length ? 2 + (length == sizeof(text)) : 0);
		if (length > 42) {
			cr_assert_geq(lines.count, 1);
			expect_path(&lines.lines[0], "/one");
		}
	}
}

/* The profiled process chooses names. The kernel escapes only newlines, as \012. */
Test(proc_maps, names_may_have_any_bytes)
{
	static const char text[] = "400000-401000 r-xp 0 00:00 7 /a\\012600000-601000 r-xp 0 00:00 7 /b\n"
				   "500000-501000 r-xp 0 00:00 7 \xff\xfe\0mid\x1b[2J%s%n\n";
	struct lines lines = parse_bytes(text, sizeof(text) - 1);

	cr_assert_eq(lines.count, 2);
	expect_path(&lines.lines[0], "/a\\012600000-601000 r-xp 0 00:00 7 /b");
	cr_assert_eq(lines.lines[1].path_length, 14);
	cr_assert_eq(memcmp(lines.lines[1].path, "\xff\xfe\0mid\x1b[2J%s%n", 14), 0);
}

Test(proc_maps, a_very_long_line_is_parsed)
{
	enum { LENGTH = 1 << 20 };
	char *text = malloc(LENGTH);
	const int head = snprintf(text, LENGTH, "400000-401000 r-xp 0 00:00 7 /");

	memset(text + head, 'a', LENGTH - (size_t)head);
	cr_assert_eq(parse_bytes(text, LENGTH).count, 1);
	memset(text, '0', LENGTH);
	cr_assert_eq(parse_bytes(text, LENGTH).skipped, 1);
	memset(text, '\n', LENGTH);
	cr_assert_eq(parse_bytes(text, LENGTH).skipped, LENGTH);
	free(text);
}

/* Compares the kernel's text with what this process knows about itself. */
Test(proc_maps, the_maps_of_this_process_are_parsed)
{
	static char text[1 << 18];
	FILE *file = fopen("/proc/self/maps", "re");
	void *page = mmap(NULL, 12288, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const size_t length = fread(text, 1, sizeof(text), file);
	bool seen_page = false, seen_code = false;

	fclose(file);
	struct lines lines = parse_bytes(text, length);
	cr_assert_eq(lines.skipped, 0);
	cr_assert_gt(lines.count, 10);
	for (unsigned int i = 0; i < lines.count; i++) {
		const struct proc_mapping *m = &lines.lines[i];
		const uint64_t code = (uint64_t)(uintptr_t)on_line;

		seen_page |= m->start <= (uintptr_t)page && m->end >= (uintptr_t)page + 12288 && m->executable && !m->path_length;
		seen_code |= code >= m->start && code < m->end && m->executable && m->inode && m->path[0] == '/';
	}
	cr_assert(seen_page);
	cr_assert(seen_code);
}

static void expect_comm(const char *text, size_t size, const char *wanted)
{
	char comm[64];

	memset(comm, 'x', sizeof(comm));
	cr_assert_eq(proc_stat_comm(text, strlen(text), comm, size), wanted != NULL, "%s", text);
	if (wanted)
		cr_assert_str_eq(comm, wanted);
	else
		cr_assert_eq(comm[0], 'x', "untouched on failure");
	cr_assert_eq(comm[size], 'x', "written after the end");
}

Test(proc_maps, the_name_may_have_parentheses)
{
	expect_comm("42 (bash) S 1 42", 16, "bash");
	expect_comm("42 () S 1 42", 16, "");
	expect_comm("42 (a) R (b)) S 1 42", 16, "a) R (b)");
	expect_comm("42 (((() S 1 42", 16, "(((");
	expect_comm("42 (fifteen letters) S", 16, "fifteen letters");
	expect_comm("42 (sixteen letters!) S", 16, "sixteen letters");
	expect_comm("42 (bash) S", 1, "");
	expect_comm("42 (bash) S", 0, NULL);
	expect_comm("", 16, NULL);
	expect_comm("(", 16, NULL);
	expect_comm(")", 16, NULL);
	expect_comm(") (", 16, NULL);
	expect_comm("42 bash S", 16, NULL);
}

Test(proc_maps, the_state_says_whether_the_first_thread_has_ended)
{
	static const char *const ended[] = {"42 (bash) Z 1 42", "42 (bash) X 1 42", "42 (a) S (b) Z 1 42", "42 (bash) Z"};
	static const char *const others[] = {"42 (bash) S 1 42", "42 (a) Z (b) S 1 42", "42 (bash) ", "42 (bash)", ""};

	for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++)
		cr_expect(proc_stat_leader_ended(ended[i], strlen(ended[i])), "%s", ended[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_not(proc_stat_leader_ended(others[i], strlen(others[i])), "%s", others[i]);
}

static uint64_t start_of(const char *text, size_t length)
{
	uint64_t ticks = 0;
	char *copy = malloc(length ? length : 1);

	memcpy(copy, text, length);
	if (!proc_stat_start(copy, length, &ticks))
		ticks = UINT64_MAX;
	free(copy);
	return ticks;
}

Test(proc_maps, start_time_is_field_22)
{
	static const char rest[] = " S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 9 10\n";
	static const char *const names[] = {"cat", "", "a b", ") S 1 2 (", "1 2 3 4 5 6 7 8 9 0", ":-)"};
	char text[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), "42 (%s)%s", names[i], rest);
		cr_expect_eq(start_of(text, strlen(text)), 123456, "%s", text);
	}
	/* If the text is cut before the end of the number, there is no result. */
	const size_t end = (size_t)(strstr(text, "123456") - text) + 6;
	for (size_t length = 0; length <= end; length++)
		cr_expect_eq(start_of(text, length), UINT64_MAX, "%zu", length);
	cr_expect_eq(start_of(text, end + 1), 123456);
	static const char *const bad[] = {"", "42", "42 cat S 1", "42 (cat", ")", ") S 1 2 3",
					  ") S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 -1 ",
					  ") S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 99999999999999999999 "};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(start_of(bad[i], strlen(bad[i])), UINT64_MAX, "%s", bad[i]);
}

Test(proc_maps, the_start_of_this_process_is_plausible)
{
	char text[1024];
	FILE *f = fopen("/proc/self/stat", "re");

	cr_assert(f);
	const size_t n = fread(text, 1, sizeof(text), f);
	fclose(f);
	cr_assert_neq(start_of(text, n), UINT64_MAX);
}
