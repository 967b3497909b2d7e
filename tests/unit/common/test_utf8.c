/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "common/utf8.h"

static bool is_scalar(uint32_t code_point)
{
	return code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff);
}

Test(utf8, every_code_point_survives_encoding_and_decoding)
{
	for (uint32_t c = 0; c < 0x110400; c++) {
		char bytes[UTF8_BYTES_MAX];
		uint32_t decoded = 0;
		const size_t length = utf8_encode(c, bytes);

		cr_assert_eq(utf8_decode(bytes, length, &decoded), is_scalar(c) ? length : 0, "%x",
			     c);
		if (is_scalar(c))
			cr_assert_eq(decoded, c);
	}
}

Test(utf8, every_prefix_of_a_character_is_invalid)
{
	static const uint32_t code_points[] = {0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};

	for (size_t i = 0; i < sizeof(code_points) / sizeof(code_points[0]); i++) {
		char bytes[UTF8_BYTES_MAX];
		uint32_t unused;
		const size_t length = utf8_encode(code_points[i], bytes);

		for (size_t left = 0; left < length; left++)
			cr_assert_eq(utf8_decode(bytes, left, &unused), 0);
	}
}

/* Of the 2^16 pairs of bytes, exactly the 1,920 characters of two bytes decode as one. */
Test(utf8, no_pair_of_bytes_is_accepted_by_mistake)
{
	unsigned int accepted = 0;

	for (unsigned int pair = 0; pair < 1 << 16; pair++) {
		const char bytes[] = {(char)(pair >> 8), (char)pair};
		uint32_t code_point;

		if (utf8_decode(bytes, 2, &code_point) != 2)
			continue;
		accepted++;
		cr_assert(code_point >= 0x80 && code_point < 0x800);
	}
	cr_assert_eq(accepted, 0x800 - 0x80);
}

Test(utf8, overlong_forms_surrogates_and_numbers_beyond_unicode_are_invalid)
{
	static const char *const texts[] = {
	    "\xc0\x80",		"\xc1\xbf",	    "\xe0\x80\x80", "\xe0\x9f\xbf",
	    "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
	    "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",	    "\x80"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint32_t code_point;

		cr_expect_eq(utf8_decode(texts[i], strlen(texts[i]), &code_point), 0, "text %zu",
			     i);
	}
}

/* The largest class that accepts each code point. */
static const struct {
	uint32_t code_point;
	enum utf8_class class;
} borders[] = {
    {0x00, UTF8_ANY},	      {0x01, UTF8_TEXT},	  {0x1f, UTF8_TEXT},
    {0x20, UTF8_PRINTABLE},   {0x7e, UTF8_PRINTABLE},	  {0x7f, UTF8_TEXT},
    {0x80, UTF8_TEXT},	      {0x9f, UTF8_TEXT},	  {0xa0, UTF8_PRINTABLE},
    {0x200a, UTF8_PRINTABLE}, {0x200b, UTF8_NO_CONTROLS}, {0x200f, UTF8_NO_CONTROLS},
    {0x2010, UTF8_PRINTABLE}, {0x2028, UTF8_NO_CONTROLS}, {0x202e, UTF8_NO_CONTROLS},
    {0x202f, UTF8_PRINTABLE}, {0x2060, UTF8_NO_CONTROLS}, {0x206f, UTF8_NO_CONTROLS},
    {0x2070, UTF8_PRINTABLE}, {0xfeff, UTF8_NO_CONTROLS}, {0x1f642, UTF8_PRINTABLE},
};

Test(utf8, each_class_accepts_what_it_should)
{
	for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++) {
		for (enum utf8_class class = UTF8_ANY; class <= UTF8_PRINTABLE; class ++) {
			char bytes[UTF8_BYTES_MAX];
			const size_t length = utf8_encode(borders[i].code_point, bytes);
			const bool allowed = class <= borders[i].class;

			cr_expect_eq(utf8_length(bytes, length, class), allowed ? length : 0,
				     "U+%04X class %d", borders[i].code_point, class);
			cr_expect_eq(utf8_is_valid(bytes, length, class), allowed);
		}
	}
}

Test(utf8, invalid_byte_is_found_at_every_place_of_a_long_text)
{
	char text[40];

	for (size_t at = 0; at < sizeof(text); at++) {
		memset(text, 'x', sizeof(text));
		cr_assert(utf8_is_valid(text, sizeof(text), UTF8_TEXT));
		text[at] = '\x80';
		cr_assert_not(utf8_is_valid(text, sizeof(text), UTF8_TEXT));
		for (char c = 1; c < 0x7f; c++) {
			text[at] = c;
			cr_assert(utf8_is_valid(text, sizeof(text), UTF8_TEXT));
			cr_assert_eq(utf8_is_valid(text, sizeof(text), UTF8_PRINTABLE), c >= 0x20);
		}
		text[at] = 0x7f;
		cr_assert_not(utf8_is_valid(text, sizeof(text), UTF8_PRINTABLE));
		text[at] = '\0';
		cr_assert_not(utf8_is_valid(text, sizeof(text), UTF8_TEXT));
	}
}

Test(utf8, copy_replaces_each_bad_byte)
{
	static const char text[] = "a\xff\xc3\xa9\0\xe2\x82z";
	char out[64];

	cr_assert_eq(utf8_copy(out, sizeof(out), text, sizeof(text) - 1, UTF8_TEXT), 16);
	cr_assert_str_eq(out, "a" UTF8_REPLACEMENT
			      "\xc3\xa9" UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT "z");
}

Test(utf8, copy_is_cut_at_a_whole_character)
{
	for (size_t size = 1; size < 12; size++) {
		char out[16];

		memset(out, '#', sizeof(out));
		const size_t length =
		    utf8_copy(out, size, "\xe2\x82\xac\xe2\x82\xac\xff", 7, UTF8_TEXT);
		cr_assert_eq(length, (size - 1) / 3 * 3);
		cr_assert_eq(out[length], '\0');
		cr_assert_eq(out[size], '#');
	}
}
