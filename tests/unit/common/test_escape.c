/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/escape.h"
#include "common/utf8.h"

static void expect_text(const char *text, size_t length, enum escape_keep keep,
			const char *expected)
{
	char out[256], *stream = NULL;
	size_t bytes = 0, taken = 0;

	cr_expect_eq(escape_text(out, sizeof(out), text, length, keep, &taken), strlen(expected));
	cr_expect_str_eq(out, expected);
	cr_expect_eq(taken, length);
	FILE *file = open_memstream(&stream, &bytes);
	escape_write_text(file, text, length, keep);
	fclose(file);
	cr_expect_str_eq(stream, expected, "the stream differs from the buffer");
	free(stream);
}

Test(escape, bytes_that_are_not_kept_become_hexadecimal)
{
	expect_text("a\n\xc3\xa9\xff", 5, ESCAPE_KEEP_ASCII, "a\\x0a\\xc3\\xa9\\xff");
	expect_text("a\n\xc3\xa9\xff", 5, ESCAPE_KEEP_PRINTABLE, "a\\x0a\xc3\xa9\\xff");
	expect_text("\x1b[2J\x7f\0", 6, ESCAPE_KEEP_PRINTABLE, "\\x1b[2J\\x7f\\x00");
	/* U+0085 is a control, and U+202E reverses what follows. */
	expect_text("\xc2\x85", 2, ESCAPE_KEEP_PRINTABLE, "\\xc2\\x85");
	expect_text("\xe2\x80\xae", 3, ESCAPE_KEEP_PRINTABLE, "\\xe2\\x80\\xae");
}

Test(escape, text_is_cut_at_a_whole_character_or_escape)
{
	static const char text[] = "a\n\xc3\xa9z";

	for (size_t size = 1; size < 12; size++) {
		char out[16];
		size_t taken = 99;

		memset(out, '#', sizeof(out));
		const size_t length =
		    escape_text(out, size, text, sizeof(text) - 1, ESCAPE_KEEP_PRINTABLE, &taken);
		/* "a", "\x0a", two bytes, "z": whole pieces end at these lengths. */
		cr_assert(length == 0 || length == 1 || length == 5 || length == 7 || length == 8);
		cr_assert_lt(length, size);
		cr_assert_eq(out[length], '\0');
		cr_assert_eq(out[size], '#');
		cr_assert_eq(taken == sizeof(text) - 1, length == 8);
	}
}

Test(escape, no_room_is_no_write)
{
	char byte = '#';

	cr_assert_eq(escape_text(&byte, 0, "text", 4, ESCAPE_KEEP_ASCII, NULL), 0);
	cr_assert_eq(byte, '#');
}

static void expect_json(const char *text, size_t length, enum escape_json where,
			const char *expected)
{
	char *stream = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&stream, &bytes);

	escape_write_json(file, text, length, where);
	fclose(file);
	cr_expect_str_eq(stream, expected);
	free(stream);
}

Test(escape, json_strings_cannot_be_left)
{
	expect_json("a\"b\\c", 5, ESCAPE_JSON, "\"a\\\"b\\\\c\"");
	expect_json("\n\x7f\0", 3, ESCAPE_JSON, "\"\\u000a\\u007f\\u0000\"");
	expect_json("</script>&'", 11, ESCAPE_JSON, "\"</script>&'\"");
	expect_json("\xc3\xa9\xff", 3, ESCAPE_JSON, "\"\xc3\xa9\\ufffd\"");
}

Test(escape, json_in_html_cannot_leave_a_script_element)
{
	expect_json("</script>", 9, ESCAPE_JSON_IN_HTML, "\"\\u003c/script\\u003e\"");
	expect_json("&'\"\\", 4, ESCAPE_JSON_IN_HTML, "\"\\u0026\\u0027\\u0022\\u005c\"");
	expect_json("\xe2\x80\xa8\xe2\x80\xa9", 6, ESCAPE_JSON_IN_HTML, "\"\\u2028\\u2029\"");
	expect_json("\xf0\x9f\x99\x82", 4, ESCAPE_JSON_IN_HTML, "\"\xf0\x9f\x99\x82\"");
}

Test(escape, json_takes_every_byte_once)
{
	for (unsigned int c = 0; c < 256; c++) {
		const char text = (char)c;
		char out[ESCAPE_JSON_BYTES_MAX];
		size_t used = 0;

		cr_assert_eq(escape_json_character(&text, 1, ESCAPE_JSON_IN_HTML, out, &used), 1);
		cr_assert(used == 1 || used == 6);
		for (size_t i = 0; i < used; i++)
			cr_assert(out[i] >= 0x20 && out[i] < 0x7f);
	}
}
