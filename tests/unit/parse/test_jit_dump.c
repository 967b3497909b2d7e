/* SPDX-License-Identifier: Apache-2.0 */
/* Jitdump files: what is an event, in pieces of any size. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "parse/jit_dump.h"

static uint8_t file[1 << 16];
static size_t file_length;
static char seen[8192]; /* what the parser reported */
static size_t seen_length;
static int answer; /* of on_event() */

/* --- writing --- */

static void put(const void *data, size_t length)
{
	cr_assert_leq(length, sizeof(file) - file_length);
	memcpy(file + file_length, data, length);
	file_length += length;
}

static void put_u32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void put_u64(uint64_t value)
{
	put(&value, sizeof(value));
}

static void put_zeros(size_t count)
{
	for (size_t i = 0; i < count; i++)
		put("", 1);
}

static uint32_t padding; /* of the header */

static void put_header(uint32_t magic, uint32_t version, uint32_t bytes, uint64_t flags)
{
	put_u32(magic);
	put_u32(version);
	put_u32(bytes);
	put_u32(62);
	put_u32(padding);
	put_u32(42);
	put_u64(1);
	put_u64(flags);
}

static void put_prefix(uint32_t kind, uint32_t bytes, uint64_t time_ns)
{
	put_u32(kind);
	put_u32(bytes);
	put_u64(time_ns);
}

/* A load whose code is `bytes` zeros, of which the record has as many as `there`. */
static void put_load(uint64_t time_ns, uint64_t start, uint64_t bytes, const char *name,
		     uint32_t there)
{
	put_prefix(0, 56 + (uint32_t)strlen(name) + 1 + there, time_ns);
	put_u32(42);
	put_u32(43);
	put_u64(start);
	put_u64(start);
	put_u64(bytes);
	put_u64(7);
	put(name, strlen(name) + 1);
	put_zeros(there);
}

static void put_move(uint64_t from, uint64_t to, uint64_t bytes)
{
	put_prefix(1, 64, 5);
	put_u32(42);
	put_u32(43);
	put_u64(to);
	put_u64(from);
	put_u64(to);
	put_u64(bytes);
	put_u64(7);
}

static void put_lines(uint64_t start, uint64_t lines, uint32_t bytes)
{
	put_prefix(2, 32 + bytes, 4);
	put_u64(start);
	put_u64(lines);
}

static void put_line(uint64_t start, uint32_t line, const char *path)
{
	put_u64(start);
	put_u32(line);
	put_u32(0);
	put(path, strlen(path) + 1);
}

static void setup(void)
{
	put_header(0x4a695444, 1, 40, 0);
}

TestSuite(jit_dump, .init = setup);

/* --- reading --- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	seen_length +=
	    (size_t)vsnprintf(seen + seen_length, sizeof(seen) - seen_length, format, arguments);
	va_end(arguments);
}

static int on_event(void *context, const struct jit_dump_event *event)
{
	const int length = (int)event->text_length;

	cr_expect_eq(context, seen);
	if (event->kind == JIT_DUMP_LOAD)
		say("load %" PRIx64 "-%" PRIx64 " %.*s", event->start, event->end, length,
		    event->text);
	else if (event->kind == JIT_DUMP_MOVE)
		say("move %" PRIx64 " %" PRIx64 "-%" PRIx64, event->from, event->start, event->end);
	else if (event->kind == JIT_DUMP_LINES)
		say("lines %" PRIx64, event->start);
	else
		say("line %" PRIx64 " %u %.*s", event->start, event->line, length,
		    event->same_file ? "=" : event->text);
	if (event->same_file)
		say("=");
	if (event->kind == JIT_DUMP_LOAD)
		say(" @%" PRIu64, event->time_ns);
	say("\n");
	return answer;
}

/* Parses what was written, of which `piece` bytes more are there at a time. Returns the last result
 * if it was an error, else 0. */
static ssize_t parse(struct jit_dump_parser *parser, size_t piece)
{
	size_t at = 0;

	seen_length = 0;
	seen[0] = 0;
	jit_dump_init(parser);
	for (size_t end = 0; end < file_length;) {
		end = file_length - end < piece ? file_length : end + piece;
		const ssize_t used = jit_dump_feed(parser, file + at, end - at, on_event, seen);
		if (used < 0)
			return used;
		cr_assert_leq((size_t)used, end - at);
		at += (size_t)used;
		at += jit_dump_skip(parser, end - at);
	}
	return 0;
}

static void expect(const char *expected, uint64_t skipped, ssize_t result)
{
	for (size_t piece = 1; piece <= file_length; piece = piece < 70 ? piece + 1 : 2 * piece) {
		struct jit_dump_parser parser;

		cr_expect_eq(parse(&parser, piece), result, "in pieces of %zu", piece);
		cr_expect_str_eq(seen, expected, "in pieces of %zu", piece);
		cr_expect_eq(parser.skipped, skipped, "%" PRIu64, parser.skipped);
	}
}

Test(jit_dump, a_load_has_addresses_name_and_time)
{
	put_load(9, 0x7f1200001000, 64, "JS:*render (x) page.js:12", 64);
	put_load(10, 0x20, 16, "g", 16);
	expect("load 7f1200001000-7f1200001040 JS:*render (x) page.js:12 @9\nload 20-30 g @10\n", 0,
	       0);
}

Test(jit_dump, the_bytes_of_the_code_are_not_needed)
{
	struct jit_dump_parser parser;

	put_load(9, 0x20, 16, "g", 16);
	const size_t start = 40 + 56 + 2;
	jit_dump_init(&parser);
	cr_expect_eq(jit_dump_feed(&parser, file, start, on_event, seen), start);
	cr_expect_eq(jit_dump_skip(&parser, 10), 10);
	cr_expect_eq(jit_dump_skip(&parser, 10), 6);
	cr_expect_eq(jit_dump_skip(&parser, 10), 0);
	cr_expect_str_eq(seen, "load 20-30 g @9\n");
}

Test(jit_dump, code_may_move_and_may_have_no_bytes_in_the_file)
{
	put_load(9, 0x20, 16, "g", 0);
	put_move(0x20, 0x1020, 16);
	expect("load 20-30 g @9\nmove 20 1020-1030\n", 0, 0);
}

Test(jit_dump, lines_come_before_their_code)
{
	put_lines(0x1000, 3, 3 * 16 + 8 + 2 + 5 + 6);
	put_line(0x1040, 12, "page.js");
	put_line(0x1058, 14, "\xff");
	put_line(0x1060, 3, "a.js");
	put_zeros(6); /* padding */
	put_load(9, 0x1000, 64, "f", 64);
	expect("lines 1000\nline 1040 12 page.js\nline 1058 14 =\nline 1060 3 a.js\n"
	       "load 1000-1040 f @9\n",
	       0, 0);
	struct jit_dump_parser parser;
	parse(&parser, 7);
	cr_expect_not(parser.lines_are_exact);
	put_lines(0x1000, 1, 16 + 2);
	put_line(0x103f, 12, "f");
	parse(&parser, 7);
	cr_expect(parser.lines_are_exact);
}

Test(jit_dump, other_records_are_skipped)
{
	put_prefix(4, 16 + 24 + 3, 1); /* unwinding information */
	put_zeros(27);
	put_prefix(99, 16, 1);
	put_prefix(3, 16, 2); /* the end of the compiler */
	put_load(9, 0x20, 16, "g", 16);
	expect("load 20-30 g @9\n", 0, 0);
}

Test(jit_dump, a_longer_header_is_skipped)
{
	file_length = 0;
	put_header(0x4a695444, 1, 48, 0);
	put_zeros(8);
	put_load(9, 0x20, 16, "g", 16);
	expect("load 20-30 g @9\n", 0, 0);
}

Test(jit_dump, times_of_another_clock_do_not_count)
{
	file_length = 0;
	put_header(0x4a695444, 1, 40, 1);
	put_load(9, 0x20, 16, "g", 16);
	expect("load 20-30 g @0\n", 0, 0);
}

Test(jit_dump, files_of_another_format_are_refused)
{
	file_length = 0;
	put_header(0x4454694a, 1, 40, 0);
	expect("", 0, -EBADMSG);
	file_length = 0;
	put_header(0x4a695444, 2, 40, 0);
	expect("", 0, -EBADMSG);
	file_length = 0;
	put_header(0x4a695444, 1, 39, 0);
	expect("", 0, -EBADMSG);
}

Test(jit_dump, a_record_that_cannot_be_one_ends_it)
{
	put_load(9, 0x20, 16, "g", 16);
	put_prefix(0, 15, 1);
	put_load(9, 0x20, 16, "h", 16);
	expect("load 20-30 g @9\n", 0, -EBADMSG);
}

Test(jit_dump, space_that_is_not_written_yet_is_not_parsed)
{
	put_load(9, 0x20, 16, "g", 16);
	put_zeros(100);
	expect("load 20-30 g @9\n", 0, 0);
}

Test(jit_dump, addresses_beyond_user_space_are_skipped)
{
	put_load(9, UINT64_MAX, UINT64_MAX, "f", 0);
	put_load(9, 0x1000000000000, 1, "f", 0);
	put_load(9, 0xffffffffffff, 2, "f", 0);
	put_load(9, 0x20, 0, "empty", 0);
	put_load(9, 0x20, 1, "", 0);
	put_move(0x20, 0xffffffffffff, 2);
	put_lines(UINT64_MAX, 1, 18);
	put_line(0x20, 1, "f");
	put_lines(0x20, 1, 16 + 7);
	put_line(0x1f, 1, "before");
	put_load(9, 0xffffffffffff, 1, "last", 0);
	expect("lines 20\nload ffffffffffff-1000000000000 last @9\n", 8, 0);
}

Test(jit_dump, records_that_are_too_small_are_skipped)
{
	put_prefix(0, 55, 1);
	put_zeros(39);
	put_prefix(1, 63, 1);
	put_zeros(47);
	put_prefix(2, 31, 1);
	put_zeros(15);
	put_load(9, 0x20, 16, "g", 16);
	expect("load 20-30 g @9\n", 3, 0);
}

/* V8 may have an entry for the offset -1, which does not say how it writes addresses. */
Test(jit_dump, v8_always_shifts_lines)
{
	struct jit_dump_parser parser;

	file_length = 0;
	padding = 0xdeadbeef;
	put_header(0x4a695444, 1, 40, 0);
	put_lines(0x1000, 1, 16 + 2);
	put_line(0x103f, 12, "f");
	parse(&parser, 7);
	cr_expect(parser.is_of_v8);
	cr_expect_not(parser.lines_are_exact);
}

/* Node 20 writes such names. */
Test(jit_dump, lines_with_nuls_in_their_files_do_not_count)
{
	put_lines(0x1000, 2, 2 * (16 + 10) + 4);
	put_line(0x1040, 12, "f");
	put("g.js\0\0\0\0", 8);
	put_line(0x1050, 13, "f");
	put("g.js\0\0\0\0", 8);
	put_zeros(4);
	put_load(9, 0x1000, 64, "f", 64);
	for (size_t piece = 1; piece <= file_length; piece++) {
		struct jit_dump_parser parser;

		cr_expect_eq(parse(&parser, piece), 0);
		const char *again = strstr(seen + 1, "lines 1000\nload 1000-1040 f");
		cr_expect_not_null(again, "%s", seen);
	}
}

Test(jit_dump, more_lines_than_fit_into_the_record_are_not_there)
{
	put_lines(0x20, UINT64_MAX, 18 + 20);
	put_line(0x20, 1, "f");
	put_line(0x21, 2, "abcd"); /* its NUL is the first byte after the record */
	file_length--;
	put_load(9, 0x20, 16, "g", 16);
	expect("lines 20\nline 20 1 f\nlines 20\nload 20-30 g @9\n", 1, 0);
}

Test(jit_dump, long_names_are_cut)
{
	char name[3 * JIT_DUMP_NAME_MAX];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	put_load(9, 0x20, 16, name, 16);
	put_lines(0x20, 2, 16 + sizeof(name) + 18);
	put_line(0x20, 1, name);
	put_line(0x21, 1, "f");
	put_load(9, 0x20, 16, "g", 16);
	struct jit_dump_parser parser;
	for (size_t piece = 997; piece < file_length; piece += 997) {
		cr_expect_eq(parse(&parser, piece), 0);
		cr_expect_eq(seen_length, strlen("load 20-30 @9\n") + 1 + JIT_DUMP_NAME_MAX +
					      strlen("lines 20\nlines 20\nload 20-30 g @9\n"));
		cr_expect_eq(parser.skipped, 1);
	}
}

Test(jit_dump, the_visitor_may_stop_it)
{
	struct jit_dump_parser parser;

	put_load(9, 0x20, 16, "g", 16);
	put_load(9, 0x20, 16, "h", 16);
	answer = -7;
	cr_expect_eq(parse(&parser, 1000), -7);
	cr_expect_str_eq(seen, "load 20-30 g @9\n");
}
