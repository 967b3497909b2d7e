/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

static void expect_escaped(const char *text, size_t size, const char *expected)
{
	char buffer[256];

	memset(buffer, '#', sizeof(buffer));
	cr_assert_eq(log_escape(text, buffer, size), buffer);
	cr_assert_str_eq(buffer, expected);
	cr_assert_lt(strlen(buffer), size);
	for (size_t i = size; i < sizeof(buffer); i++)
		cr_assert_eq(buffer[i], '#', "byte %zu is beyond the buffer", i);
}

Test(log, escape_leaves_plain_text)
{
	expect_escaped("", 16, "");
	expect_escaped("/usr/bin/x y~!", 64, "/usr/bin/x y~!");
}

Test(log, escape_replaces_everything_but_printable_ascii)
{
	expect_escaped("a\nb\rc\td", 64, "a\\x0ab\\x0dc\\x09d");
	expect_escaped("\x1b[31m", 64, "\\x1b[31m");
	expect_escaped("\x7f\x80\xff", 64, "\\x7f\\x80\\xff");
	expect_escaped("\xc3\xa9", 64, "\\xc3\\xa9");
}

Test(log, every_byte_comes_out_printable)
{
	for (int c = 1; c < 256; c++) {
		char text[2] = {(char)c, 0}, buffer[16];

		log_escape(text, buffer, sizeof(buffer));
		for (const char *b = buffer; *b; b++)
			cr_assert(*b >= 0x20 && *b < 0x7f, "byte %d gives \"%s\"", c, buffer);
	}
}

Test(log, escape_is_cut_at_the_buffer_but_not_inside_an_escape)
{
	char text[400];

	for (int fill = 0; fill < 2; fill++) {
		memset(text, fill ? '\n' : 'x', sizeof(text) - 1);
		text[sizeof(text) - 1] = 0;
		for (size_t size = 1; size < 200; size++) {
			char *buffer = malloc(size);

			log_escape(text, buffer, size);
			cr_assert_lt(strlen(buffer), size);
			if (fill)
				cr_assert_eq(strlen(buffer) % 4, 0, "\"%s\"", buffer);
			if (size > 8)
				cr_assert_gt(strlen(buffer) + 8, size, "far too short: %zu of %zu",
					     strlen(buffer), size);
			free(buffer);
		}
	}
}

Test(log, escape_without_room_writes_nothing)
{
	char byte = '#';

	cr_assert_eq(log_escape("text", &byte, 0), &byte);
	cr_assert_eq(byte, '#');
}

/* A pipe that replaces stderr. */
static int captured[2];

static void capture(void)
{
	cr_assert_eq(pipe2(captured, O_NONBLOCK), 0);
	cr_assert_eq(dup2(captured[1], STDERR_FILENO), STDERR_FILENO);
}

static size_t take(char *text, size_t size)
{
	ssize_t n = read(captured[0], text, size - 1);

	text[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;

	cr_assert_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	const bool result = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return result;
}

Test(log, a_line_has_time_level_and_role)
{
	char text[4096];

	capture();
	unsetenv("BULKHEAD_LOG");
	log_init("bulkhead-role");
	log_error("cannot: key=%d", 42);
	take(text, sizeof(text));
	cr_assert(matches(text, "^[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z error "
				"bulkhead-role: cannot: key=42\n$"),
		  "%s", text);
}

Test(log, only_lines_up_to_the_level_are_written)
{
	static const struct {
		const char *wanted;
		const char *lines; /* first letters of the levels written */
	} cases[] = {
	    {NULL, "ew"}, {"error", "e"}, {"warning", "ew"}, {"info", "ewi"}, {"debug", "ewid"}};
	char text[4096];

	capture();
	/* The level is kept once it is set, so the cases go from few lines to many. */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].wanted)
			setenv("BULKHEAD_LOG", cases[i].wanted, 1);
		else
			unsetenv("BULKHEAD_LOG");
		log_init("r");
		log_error("e");
		log_warning("w");
		log_info("i");
		log_debug("d");
		take(text, sizeof(text));
		char seen[16] = "";
		size_t n = 0;
		for (char *line = strtok(text, "\n"); line && n < sizeof(seen) - 1;
		     line = strtok(NULL, "\n"))
			seen[n++] = line[strlen(line) - 1];
		cr_assert_str_eq(seen, cases[i].lines, "BULKHEAD_LOG=%s",
				 cases[i].wanted ? cases[i].wanted : "(unset)");
	}
}

Test(log, unknown_level_means_the_default)
{
	char text[4096];

	capture();
	setenv("BULKHEAD_LOG", "nonsense", 1);
	log_init("r");
	log_info("i");
	cr_assert_eq(take(text, sizeof(text)), 0);
	log_warning("w");
	cr_assert_gt(take(text, sizeof(text)), 0);
}

Test(log, long_line_is_cut_and_ends_with_a_newline)
{
	static char message[5000];
	char text[8192];

	capture();
	log_init("r");
	for (size_t length = 900; length < 1200; length++) {
		memset(message, 'm', length);
		message[length] = 0;
		log_error("%s", message);
		const size_t n = take(text, sizeof(text));
		cr_assert_leq(n, 1024);
		cr_assert_eq(text[n - 1], '\n');
		cr_assert_eq(strlen(text), n, "no byte of the buffer beyond the text");
		cr_assert_eq(strchr(text, '\n'), text + n - 1);
	}
	memset(message, 'm', sizeof(message) - 1);
	log_error("%s", message);
	cr_assert_leq(take(text, sizeof(text)), 1024);
}
