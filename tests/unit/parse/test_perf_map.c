/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of generated code: what is a line, in pieces of any size. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "parse/perf_map.h"

static char seen[8192]; /* what the parser reported */
static size_t seen_length;
static int answer; /* of on_entry() */

static int on_entry(void *context, const struct perf_map_entry *entry)
{
	cr_expect_eq(context, seen);
	seen_length += (size_t)snprintf(seen + seen_length, sizeof(seen) - seen_length,
					"%" PRIx64 "-%" PRIx64 " %.*s\n", entry->start, entry->end,
					(int)entry->name_length, entry->name);
	return answer;
}

/* Parses a text in pieces of this size. */
static struct perf_map_parser parse(const char *text, size_t length, size_t piece)
{
	struct perf_map_parser parser;

	seen_length = 0;
	seen[0] = 0;
	perf_map_init(&parser);
	for (size_t at = 0; at < length; at += piece)
		cr_expect_eq(perf_map_feed(&parser, text + at,
					   length - at < piece ? length - at : piece, on_entry,
					   seen),
			     0);
	return parser;
}

static void expect(const char *text, const char *expected, unsigned int skipped)
{
	for (size_t piece = 1; piece <= strlen(text); piece++) {
		const struct perf_map_parser parser = parse(text, strlen(text), piece);

		cr_expect_str_eq(seen, expected, "in pieces of %zu", piece);
		cr_expect_eq(parser.skipped, skipped, "%" PRIu64, parser.skipped);
	}
}

Test(perf_map, a_line_has_start_size_and_name)
{
	expect("7f1200001000 40 f\n", "7f1200001000-7f1200001040 f\n", 0);
	expect("0x10 0xA0 f\n", "10-b0 f\n", 0);
	expect("000000000000000000010 1 f\n", "10-11 f\n", 0);
}

Test(perf_map, a_name_may_contain_blanks)
{
	expect("10 2  LazyCompile:~g (x) page.js:12 \r\n", "10-12 LazyCompile:~g (x) page.js:12\n",
	       0);
}

Test(perf_map, a_line_counts_when_its_newline_is_there)
{
	expect("10 2 f\n20 2 g", "10-12 f\n", 0);
}

Test(perf_map, lines_of_another_form_are_skipped)
{
	expect("\nnothing\n10\n10 2\n10 2 \n10 xyz f\n-1 2 f\n10,2,f\n20 2 g\n", "20-22 g\n", 8);
}

Test(perf_map, addresses_beyond_user_space_are_skipped)
{
	expect("10 0 empty\n"
	       "ffffffffffffffff ffffffffffffffff f\n"
	       "10000000000000000 10 f\n"
	       "1000000000000 1 f\n"
	       "ffffffffffff 2 f\n"
	       "ffffffffffff 1 last\n",
	       "ffffffffffff-1000000000000 last\n", 5);
}

Test(perf_map, a_name_with_a_nul_is_skipped)
{
	static const char text[] = "10 2 f\0g\n20 2 h\n";
	const struct perf_map_parser parser = parse(text, sizeof(text) - 1, 3);

	cr_expect_str_eq(seen, "20-22 h\n");
	cr_expect_eq(parser.skipped, 1);
}

Test(perf_map, a_long_name_is_cut)
{
	char text[3 * PERF_MAP_LINE_MAX];

	memset(text, 'x', sizeof(text));
	memcpy(text, "10 2 ", 5);
	memcpy(text + sizeof(text) - 8, "\n20 2 g\n", 8);
	for (size_t piece = 1; piece <= sizeof(text); piece += 997) {
		parse(text, sizeof(text), piece);
		cr_expect_eq(strlen(seen), strlen("10-12 ") + PERF_MAP_LINE_MAX - 5 + 1 + 8);
		cr_expect_not_null(strstr(seen, "xx\n20-22 g\n"));
	}
}

Test(perf_map, the_visitor_may_stop_it)
{
	struct perf_map_parser parser;

	perf_map_init(&parser);
	answer = -7;
	cr_expect_eq(perf_map_feed(&parser, "10 2 f\n20 2 g\n", 14, on_entry, seen), -7);
	cr_expect_str_eq(seen, "10-12 f\n");
}
