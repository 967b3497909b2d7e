/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/cursor.h"

#define CURSOR_OF(...) cursor_init((const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))

Test(cursor, integers_are_little_endian)
{
	struct cursor c = CURSOR_OF(0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
				    0x0b, 0x0c, 0x0d, 0x0e, 0x0f);

	cr_assert_eq(cursor_u8(&c), 0x01);
	cr_assert_eq(cursor_u16(&c), 0x0302);
	cr_assert_eq(cursor_u32(&c), 0x07060504);
	cr_assert_eq(cursor_u64(&c), 0x0f0e0d0c0b0a0908);
	cr_assert_eq(cursor_left(&c), 0);
	cr_assert_not(c.failed);
}

Test(cursor, every_read_after_a_failure_returns_zero)
{
	struct cursor c = CURSOR_OF(0xff, 0xff, 0xff);

	cr_assert_eq(cursor_u32(&c), 0);
	cr_assert(c.failed);
	cr_assert_eq(cursor_u8(&c), 0, "a byte is there, but not after a failure");
	cr_assert_eq(cursor_offset(&c), 0);
	cr_assert_eq(cursor_left(&c), 0);
	cr_assert_null(cursor_take(&c, 0));
	cr_assert_null(cursor_string(&c));
	cr_assert_eq(cursor_uleb128(&c), 0);
	cr_assert_eq(cursor_sleb128(&c), 0);
}

Test(cursor, empty_buffer_fails_at_the_first_read)
{
	struct cursor c = cursor_init(NULL, 0);

	cr_assert_eq(cursor_left(&c), 0);
	cr_assert_not(c.failed);
	cr_assert_eq(cursor_u8(&c), 0);
	cr_assert(c.failed);
}

Test(cursor, take_refuses_lengths_that_would_wrap)
{
	struct cursor c = CURSOR_OF(1, 2, 3, 4);

	cursor_u8(&c);
	cr_assert_null(cursor_take(&c, UINT64_MAX));
	cr_assert(c.failed);
}

Test(cursor, seek_moves_within_the_buffer_only)
{
	struct cursor c = CURSOR_OF(1, 2, 3, 4);

	cursor_seek(&c, 3);
	cr_assert_eq(cursor_u8(&c), 4);
	cursor_seek(&c, 0);
	cr_assert_eq(cursor_u8(&c), 1);
	cursor_seek(&c, 4);
	cr_assert_not(c.failed, "the end itself is a place to be");
	cursor_seek(&c, 5);
	cr_assert(c.failed);
	cursor_seek(&c, 0);
	cr_assert(c.failed, "there is no way back");
}

Test(cursor, sub_is_bounded_by_its_parent_and_by_itself)
{
	struct cursor c = CURSOR_OF(1, 2, 3, 4);
	struct cursor sub = cursor_sub(&c, 2);

	cr_assert_eq(cursor_u16(&sub), 0x0201);
	cr_assert_eq(cursor_u8(&sub), 0);
	cr_assert(sub.failed);
	cr_assert_eq(cursor_u8(&c), 3, "the parent continues after the part, even if the part failed");
	sub = cursor_sub(&c, 2);
	cr_assert(sub.failed);
	cr_assert(c.failed);
	cr_assert_eq(cursor_left(&sub), 0);
}

Test(cursor, uleb128_reads_the_numbers_of_the_specification)
{
	struct cursor c = CURSOR_OF(0x00, 0x7f, 0x80, 0x01, 0xe5, 0x8e, 0x26, 0x80, 0x80, 0x00);

	cr_assert_eq(cursor_uleb128(&c), 0);
	cr_assert_eq(cursor_uleb128(&c), 127);
	cr_assert_eq(cursor_uleb128(&c), 128);
	cr_assert_eq(cursor_uleb128(&c), 624485);
	cr_assert_eq(cursor_uleb128(&c), 0, "padded");
	cr_assert_not(c.failed);
	cr_assert_eq(cursor_left(&c), 0);
}

Test(cursor, uleb128_refuses_more_than_64_bits)
{
	struct cursor most =
	    CURSOR_OF(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x80, 0x00);
	struct cursor more = CURSOR_OF(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02);
	struct cursor far =
	    CURSOR_OF(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1);
	struct cursor cut = CURSOR_OF(0x80, 0x80);

	cr_assert_eq(cursor_uleb128(&most), UINT64_MAX);
	cr_assert_not(most.failed);
	cursor_uleb128(&more);
	cr_assert(more.failed, "65 bits");
	cursor_uleb128(&far);
	cr_assert(far.failed, "71 bits");
	cr_assert_eq(cursor_uleb128(&cut), 0);
	cr_assert(cut.failed);
}

Test(cursor, sleb128_reads_the_numbers_of_the_specification)
{
	struct cursor c =
	    CURSOR_OF(0x00, 0x02, 0x7e, 0xff, 0x00, 0x81, 0x7f, 0x80, 0x7f, 0xc0, 0xbb, 0x78);

	cr_assert_eq(cursor_sleb128(&c), 0);
	cr_assert_eq(cursor_sleb128(&c), 2);
	cr_assert_eq(cursor_sleb128(&c), -2);
	cr_assert_eq(cursor_sleb128(&c), 127);
	cr_assert_eq(cursor_sleb128(&c), -127);
	cr_assert_eq(cursor_sleb128(&c), -128);
	cr_assert_eq(cursor_sleb128(&c), -123456);
	cr_assert_not(c.failed);
	cr_assert_eq(cursor_left(&c), 0);
}

Test(cursor, sleb128_reads_the_extreme_values)
{
	struct cursor least =
	    CURSOR_OF(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff, 0xff, 0x7f);
	struct cursor most = CURSOR_OF(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00);
	struct cursor mixed =
	    CURSOR_OF(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f);
	struct cursor cut = CURSOR_OF(0xff);

	cr_assert_eq(cursor_sleb128(&least), INT64_MIN);
	cr_assert_not(least.failed);
	cr_assert_eq(cursor_sleb128(&most), INT64_MAX);
	cr_assert_not(most.failed);
	cursor_sleb128(&mixed);
	cr_assert(mixed.failed, "padding that changes the sign");
	cursor_sleb128(&cut);
	cr_assert(cut.failed);
}

/* DWARF 5, section 7.6. A number that does not fit must not be cut to one that does. */
Test(cursor, sleb128_refuses_more_than_64_bits)
{
	struct cursor positive =
	    CURSOR_OF(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02);
	struct cursor negative =
	    CURSOR_OF(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7d);

	cursor_sleb128(&positive);
	cr_assert(positive.failed, "2^64");
	cursor_sleb128(&negative);
	cr_assert(negative.failed, "below -2^63");
}

Test(cursor, string_needs_its_nul)
{
	struct cursor c = CURSOR_OF('a', 'b', 0, 0, 'c');

	cr_assert_str_eq(cursor_string(&c), "ab");
	cr_assert_str_eq(cursor_string(&c), "");
	cr_assert_null(cursor_string(&c));
	cr_assert(c.failed);
}
