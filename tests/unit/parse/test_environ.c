/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "parse/environ.h"

#define BLOCK(text) text, sizeof(text) - 1
#define REPLACEMENT "\xef\xbf\xbd"

/* Parses from memory that ends directly after the block, so that reading on is a crash. */
static void find(const char *block, size_t length, struct environ_variable *variables,
		 unsigned int count)
{
	char *copy = malloc(length ? length : 1);

	memcpy(copy, block, length);
	environ_find(copy, length, variables, count);
	free(copy);
}

static const char *find_one(const char *block, size_t length, const char *name)
{
	static struct environ_variable variable;

	memset(&variable, 'x', sizeof(variable));
	variable.name = name;
	find(block, length, &variable, 1);
	cr_assert(memchr(variable.value, 0, sizeof(variable.value)));
	return variable.found ? variable.value : NULL;
}

Test(environ, several_variables_are_found)
{
	struct environ_variable v[] = {{.name = "B"}, {.name = "A"}, {.name = "AB"}, {.name = "C"}};

	find(BLOCK("A=1\0AB=2\0B=\0D=4\0"), v, 4);
	cr_assert(v[0].found && v[1].found && v[2].found && !v[3].found);
	cr_assert_str_eq(v[0].value, "");
	cr_assert_str_eq(v[1].value, "1");
	cr_assert_str_eq(v[2].value, "2");
	cr_assert_str_eq(v[3].value, "");
	/* The results of an earlier call are cleared. */
	find(BLOCK("C=5\0"), v, 4);
	cr_assert(!v[0].found && !v[1].found && !v[2].found && v[3].found);
	cr_assert_str_eq(v[1].value, "");
}

Test(environ, names_must_match_completely)
{
	cr_expect_null(find_one(BLOCK("XNAME=1\0NAMEX=2\0NAME\0name=3\0=NAME=4\0"), "NAME"));
	cr_expect_str_eq(find_one(BLOCK("NAME=a=b\0"), "NAME"), "a=b");
	cr_expect_str_eq(find_one(BLOCK("\0\0NAME=a\0"), "NAME"), "a");
	cr_expect_str_eq(find_one(BLOCK("NAME==\0"), "NAME"), "=");
}

Test(environ, the_first_value_counts)
{
	cr_expect_str_eq(find_one(BLOCK("N=1\0N=2\0"), "N"), "1");
	cr_expect_str_eq(find_one(BLOCK("N=\0N=2\0"), "N"), "");
}

/* A value that is cut off could be the valid value of something else. */
Test(environ, an_entry_without_nul_is_ignored)
{
	cr_expect_null(find_one(BLOCK(""), "N"));
	cr_expect_null(find_one(BLOCK("N=1"), "N"));
	cr_expect_null(find_one(BLOCK("N="), "N"));
	cr_expect_null(find_one(BLOCK("N"), "N"));
	cr_expect_str_eq(find_one(BLOCK("N=1\0N=2"), "N"), "1");
	cr_expect_null(find_one(BLOCK("A=1\0N=2"), "N"));
}

Test(environ, invalid_text_is_replaced)
{
	static const struct {
		const char *value, *expected;
	} texts[] = {
	    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80",
	     "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80"},
	    {"a\nb\tc\x1b[2Jd\x7f",
	     "a" REPLACEMENT "b" REPLACEMENT "c" REPLACEMENT "[2Jd" REPLACEMENT},
	    /* Latin-1, a single continuation byte, a first byte at the end. */
	    {"caf\xe9", "caf" REPLACEMENT},
	    {"\xa9x", REPLACEMENT "x"},
	    {"x\xe2\x82", "x" REPLACEMENT REPLACEMENT},
	    {"x\xf0\x9f\x9az", "x" REPLACEMENT REPLACEMENT REPLACEMENT "z"},
	    /* Overlong, a surrogate, beyond Unicode. */
	    {"\xc0\xaf", REPLACEMENT REPLACEMENT},
	    {"\xe0\x80\xaf", REPLACEMENT REPLACEMENT REPLACEMENT},
	    {"\xf0\x8f\xbf\xbf", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT},
	    {"\xed\xa0\x80", REPLACEMENT REPLACEMENT REPLACEMENT},
	    {"\xf4\x90\x80\x80", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT},
	    {"\xff\xfe", REPLACEMENT REPLACEMENT},
	    /* The first and last valid characters of each length. */
	    {"\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
	     "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf"
	     "\xbf"},
	    /* U+0085, a control character of two bytes. */
	    {"a\xc2\x85z", "a" REPLACEMENT REPLACEMENT "z"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char block[128] = "N=";

		memcpy(block + 2, texts[i].value, strlen(texts[i].value) + 1);
		const char *found = find_one(block, strlen(block) + 1, "N");
		cr_expect_str_eq(found, texts[i].expected, "%zu: %s", i, found);
	}
}

Test(environ, long_values_are_cut_at_a_character)
{
	char block[2 * ENVIRON_VALUE_MAX + 8];

	for (size_t head = 0; head < 6; head++) {
		size_t length = 0;

		memset(block, 'a', sizeof(block));
		memcpy(block, "N=", 2);
		for (size_t at = 2 + head; at + 3 < sizeof(block); at += 3)
			memcpy(block + at, "\xe2\x82\xac", 3);
		block[sizeof(block) - 1] = 0;
		length = strlen(find_one(block, sizeof(block), "N"));
		cr_expect_eq(length, head + (ENVIRON_VALUE_MAX - head) / 3 * 3, "%zu", length);
	}
	/* The replacement character has to fit as well. */
	memset(block + 2, 0xff, sizeof(block) - 3);
	cr_expect_eq(strlen(find_one(block, sizeof(block), "N")), ENVIRON_VALUE_MAX / 3 * 3);
	memset(block + 2, 'a', sizeof(block) - 3);
	cr_expect_eq(strlen(find_one(block, sizeof(block), "N")), ENVIRON_VALUE_MAX);
}
