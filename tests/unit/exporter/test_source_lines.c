/* SPDX-License-Identifier: Apache-2.0 */
/* What --lines and --no-inline show. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/model/inlined.h"
#include "sinks_fixture.h"

TestSuite(source_lines, .init = setup, .fini = teardown);

static uint32_t frame_at_line(const char *kind, const char *file, const char *name, uint32_t line,
			      uint32_t caller)
{
	struct profile_function f = {.name = string(name), .filename = string(file)};
	struct profile_location l = {.kind = string(kind), .line = line, .caller = caller};
	uint32_t n;

	cr_assert_eq(profile_function(&p, &f, &l.function), 0);
	cr_assert_eq(profile_location(&p, &l, &n), 0);
	return n;
}

/* The second line of main() differs only in the line, and cut() has no line. */
static void add_lines(void)
{
	uint32_t first = frame_at_line("native", "/src/app.c", "main", 7, 0);
	uint32_t second = frame_at_line("native", "/src/app.c", "main", 8, 0);
	uint32_t sys = frame_at_line("kernel", "", "do_sys", 30, 0);
	uint32_t cut = frame_at_line("native", "cut.c", "cut", 0, 0);
	uint32_t t = thread(1, 1, "app", "app");

	ADD(t, 1, sys, first);
	ADD(t, 2, sys, second);
	ADD(t, 4, cut, second);
}

Test(source_lines, lines_are_shown_if_they_are_wanted)
{
	size_t length;

	add_lines();
	_cleanup_free_ char *without = render("folded", &length);
	cr_expect_str_eq(without, "app;main;cut 4\napp;main;do_sys_[k] 3\n");
	options.lines = true;
	_cleanup_free_ char *with = render("folded", &length);
	cr_expect_str_eq(with, "app;main (app.c:7);do_sys (line 30)_[k] 1\n"
			       "app;main (app.c:8);cut 4\n"
			       "app;main (app.c:8);do_sys (line 30)_[k] 2\n");
	_cleanup_free_ char *tree = render("tree", &length);
	cr_expect_not_null(strstr(tree, "main (app.c:8)"));
	_cleanup_free_ char *html = render("html", &length);
	cr_expect_not_null(strstr(html, "\"level\":\"line\""));
}

/* The page knows the lines in any case, and lets the user choose. */
Test(source_lines, html_shows_functions_unless_lines_are_wanted)
{
	size_t length;

	add_lines();
	_cleanup_free_ char *html = render("html", &length);
	cr_expect_not_null(strstr(html, "\"level\":\"function\""));
	cr_expect_not_null(strstr(html, "\"main\""));
	cr_expect_null(strstr(html, "app.c:7"));
}

Test(source_lines, a_file_whose_name_is_too_long_is_left_out_of_the_line)
{
	char path[302] = "/", line[PROFILE_LINE_BYTES];

	memset(path + 1, 'x', 256);
	profile_location_line(&p, frame_at_line("native", path, "f", 0x7fffffff, 0), line);
	cr_expect_str_eq(line, " (line 2147483647)");
	path[256] = 0;
	profile_location_line(&p, frame_at_line("native", path, "f", 0x7fffffff, 0), line);
	cr_expect_eq(strlen(line), 269);
	cr_expect_str_eq(line + 257, ":2147483647)");
}

/* A name that is as long as possible is cut, so that its line is still seen. */
Test(source_lines, the_longest_name_keeps_its_line)
{
	static char name[4097];
	size_t length;

	memset(name, 'n', sizeof(name) - 1);
	ADD(0, 1, frame_at_line("native", "/src/app.c", name, 7, 0));
	options.lines = true;
	_cleanup_free_ char *text = render("folded", &length);
	cr_expect_not_null(strstr(text, "nnn (app.c:7) 1\n"));
}

Test(source_lines, inlined_functions_are_left_out_if_they_are_not_wanted)
{
	uint32_t main = frame_at_line("native", "/src/app.c", "main", 7, 0);
	uint32_t run = frame_at_line("native", "/src/app.c", "run", 8, 0);
	uint32_t add = frame_at_line("native", "/src/app.c", "add", 9, run);
	uint32_t stack[] = {add, run, main};

	cr_expect_eq(inlined_remove(&p, stack, 3), 3, "unless asked");
	p.without_inlined = true;
	cr_assert_eq(inlined_remove(&p, stack, 3), 2);
	cr_expect_eq(stack[0], run);
	cr_expect_eq(stack[1], main);
	stack[0] = add;
	cr_expect_eq(inlined_remove(&p, stack, 1), 0);
}
