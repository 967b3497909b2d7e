/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/kallsyms.h"

#include <criterion/criterion.h>

struct log {
	char text[4096];
	size_t length;
	unsigned int stop_after;
};

static int record(void *context, const struct kallsyms_symbol *s)
{
	struct log *log = context;

	log->length += (size_t)snprintf(log->text + log->length, sizeof(log->text) - log->length,
					"%llx|%c|%.*s|%.*s\n", (unsigned long long)s->address,
					s->type, (int)s->name_length, s->name,
					(int)s->module_length, s->module ? s->module : "");
	return log->stop_after && --log->stop_after == 0 ? -5 : 0;
}

static const char text[] = "ffffffff81000000 T _stext\n"
			   "0000000000000000 A fixed_percpu_data\n"
			   "ffffffffc0201000 t ftrace_trampoline\t[__builtin__ftrace]\n"
			   "\n"
			   "not a line\n"
			   "ffffffff81000010 T\n"
			   "ffffffff81000010 T \n"
			   "ffffffff81000010  foo\n"
			   "ffffffff81000010 9 foo\n"
			   "1ffffffff81000010 T too_many_digits\n"
			   "ffffffff81000010 T foo bar\n"
			   "ffffffff81000010 T foo\t[unclosed\n"
			   "ffffffff81000010 T foo\t[]\n"
			   "ffffffff81000010 T foo\t[a] b\n"
			   "ABCDEF w \xc3\xa9t\xe9 [m]\n"
			   "10 t last";
static const char expected[] = "ffffffff81000000|T|_stext|\n"
			       "0|A|fixed_percpu_data|\n"
			       "ffffffffc0201000|t|ftrace_trampoline|__builtin__ftrace\n"
			       "abcdef|w|\xc3\xa9t\xe9|m\n"
			       "10|t|last|\n";

Test(kallsyms, lines_may_be_cut_anywhere)
{
	for (size_t piece = 1; piece <= sizeof(text); piece++) {
		struct log log = {0};
		struct kallsyms_parser parser;

		kallsyms_init(&parser, record, &log);
		for (size_t at = 0; at < sizeof(text) - 1; at += piece) {
			size_t left = sizeof(text) - 1 - at;

			cr_assert_eq(kallsyms_feed(&parser, text + at, left < piece ? left : piece),
				     0);
		}
		cr_assert_eq(kallsyms_finish(&parser), 0);
		cr_assert_str_eq(log.text, expected, "pieces of %zu bytes", piece);
		cr_assert_eq(parser.lines, 16);
		cr_assert_eq(parser.skipped, 11);
	}
}

Test(kallsyms, only_the_line_that_is_too_long_is_skipped)
{
	static char line[3 * KALLSYMS_LINE_MAX];
	struct log log = {0};
	struct kallsyms_parser parser;

	memset(line, 'x', sizeof(line));
	memcpy(line, "10 t ", 5);
	line[sizeof(line) - 1] = '\n';
	for (size_t piece = 100; piece < sizeof(line) + 100; piece += 1000) {
		log.length = 0;
		kallsyms_init(&parser, record, &log);
		for (size_t at = 0; at < sizeof(line); at += piece)
			kallsyms_feed(&parser, line + at,
				      sizeof(line) - at < piece ? sizeof(line) - at : piece);
		kallsyms_feed(&parser, "20 t next\n", 10);
		kallsyms_finish(&parser);
		cr_assert_str_eq(log.text, "20|t|next|\n");
		cr_assert_eq(parser.lines, 2);
		cr_assert_eq(parser.skipped, 1);
	}
}

Test(kallsyms, visit_can_stop_the_parser)
{
	struct log log = {.stop_after = 2};
	struct kallsyms_parser parser;

	kallsyms_init(&parser, record, &log);
	cr_assert_eq(kallsyms_feed(&parser, text, sizeof(text) - 1), -5);
	cr_assert_eq(parser.lines, 2);
}

Test(kallsyms, nul_bytes_are_not_part_of_names)
{
	static const char nul[] = "10 t a\0b\n20 t \0\n30 t c\n";
	struct log log = {0};
	struct kallsyms_parser parser;

	kallsyms_init(&parser, record, &log);
	kallsyms_feed(&parser, nul, sizeof(nul) - 1);
	cr_assert_str_eq(log.text, "30|t|c|\n");
	cr_assert_eq(parser.skipped, 2);
}
