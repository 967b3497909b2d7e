/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "exporter/otlp/otlp_answer.h"

/* --- encoding of messages --- */

struct bytes {
	uint8_t at[512];
	size_t length;
};

static struct bytes put(struct bytes b, const void *data, size_t length)
{
	cr_assert_leq(b.length + length, sizeof(b.at));
	memcpy(b.at + b.length, data, length);
	b.length += length;
	return b;
}

static struct bytes put_varint(struct bytes b, uint64_t value)
{
	do {
		uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

		b = put(b, &byte, 1);
		value >>= 7;
	} while (value);
	return b;
}

static struct bytes put_number(struct bytes b, uint32_t field, uint64_t value)
{
	return put_varint(put_varint(b, (uint64_t)field << 3), value);
}

static struct bytes put_bytes(struct bytes b, uint32_t field, struct bytes inner)
{
	b = put_varint(put_varint(b, (uint64_t)field << 3 | 2), inner.length);
	return put(b, inner.at, inner.length);
}

static struct bytes text(const char *s)
{
	return put((struct bytes){0}, s, strlen(s));
}

static const struct bytes empty;

/* --- ExportProfilesServiceResponse --- */

static struct bytes response(int64_t rejected, const char *message)
{
	return put_bytes(empty, 1,
			 put_bytes(put_number(empty, 1, (uint64_t)rejected), 2, text(message)));
}

static int parse(struct bytes b, struct otlp_answer *answer)
{
	/* A copy without anything after it, so that the sanitizer sees an overrun. */
	_cleanup_free_ uint8_t *copy = malloc(b.length ? b.length : 1);

	memcpy(copy, b.at, b.length);
	int r = otlp_answer_read(copy, b.length, answer);
	if (!r && answer->message)
		cr_assert(answer->message >= copy &&
			  answer->message + answer->message_length <= copy + b.length);
	return r;
}

Test(otlp_answer, an_empty_answer_is_success)
{
	struct otlp_answer answer = {.partial = true};

	cr_assert_eq(otlp_answer_read(NULL, 0, &answer), 0);
	cr_expect(!answer.partial && !answer.rejected_profiles && !answer.message);
	cr_assert_eq(parse(put_bytes(empty, 1, empty), &answer), 0);
	cr_expect(!answer.partial);
	cr_assert_eq(parse(response(0, ""), &answer), 0);
	cr_expect(!answer.partial && !answer.message);
}

Test(otlp_answer, partial_success_is_parsed)
{
	struct bytes b = response(42, "too old");
	struct otlp_answer answer;

	cr_assert_eq(otlp_answer_read(b.at, b.length, &answer), 0);
	cr_expect(answer.partial);
	cr_expect_eq(answer.rejected_profiles, 42);
	cr_assert_eq(answer.message_length, 7);
	cr_expect_eq(memcmp(answer.message, "too old", 7), 0);
	/* A warning without a rejection is a partial success, too. */
	cr_assert_eq(parse(response(0, "hm"), &answer), 0);
	cr_expect(answer.partial && !answer.rejected_profiles);
	cr_assert_eq(parse(response(-5, ""), &answer), 0);
	cr_expect(!answer.partial && !answer.rejected_profiles);
}

Test(otlp_answer, repeated_fields_are_merged_as_in_protobuf)
{
	struct bytes b = response(42, "first");
	struct otlp_answer answer;

	b = put_bytes(b, 1, put_number(empty, 1, 7));
	cr_assert_eq(otlp_answer_read(b.at, b.length, &answer), 0);
	cr_expect_eq(answer.rejected_profiles, 7);
	cr_expect_eq(answer.message_length, 5);
}

Test(otlp_answer, unknown_fields_are_ignored)
{
	struct bytes b = put_number(empty, 9, 1);
	struct otlp_answer answer;

	b = put_bytes(b, 100, text("later"));
	b = put(b,
		"\x51"
		"12345678"
		"\x5d"
		"1234",
		14);
	b = put_number(b, 1, 3); /* a number where a message is expected */
	b = put_bytes(b, 1, put_number(put_number(empty, 1, 2), 5, 5));
	cr_assert_eq(parse(b, &answer), 0);
	cr_expect_eq(answer.rejected_profiles, 2);
}

Test(otlp_answer, every_truncated_answer_is_refused)
{
	struct bytes b = put_number(response(300, "message"), 7, 12345);
	struct otlp_answer answer;
	const size_t whole = b.length, first = whole - 3;

	for (size_t length = 1; length < whole; length++) {
		struct bytes part = b;

		part.length = length;
		answer.rejected_profiles = 99;
		int r = parse(part, &answer);
		if (length == first)
			cr_expect_eq(r, 0);
		else
			cr_expect_eq(r, -EBADMSG, "%zu", length);
		if (r)
			cr_expect_eq(answer.rejected_profiles, 99);
	}
}

/* --- google.rpc.Status --- */

static const char retry_info_url[] = "type.googleapis.com/google.rpc.RetryInfo";

static struct bytes any(const char *url, struct bytes value)
{
	return put_bytes(put_bytes(empty, 1, text(url)), 2, value);
}

static struct bytes retry_info(int64_t seconds, int32_t nanos)
{
	struct bytes duration = empty;

	if (seconds)
		duration = put_number(duration, 1, (uint64_t)seconds);
	if (nanos)
		duration = put_number(duration, 2, (uint64_t)(int64_t)nanos);
	return put_bytes(empty, 1, duration);
}

static struct bytes status(struct bytes detail)
{
	return put_bytes(put_bytes(put_number(empty, 1, 14), 2, text("later")), 3, detail);
}

static int64_t delay(struct bytes b)
{
	_cleanup_free_ uint8_t *copy = malloc(b.length ? b.length : 1);

	memcpy(copy, b.at, b.length);
	return otlp_status_retry_delay_ns(copy, b.length);
}

static int64_t delay_of(int64_t seconds, int32_t nanos)
{
	return delay(status(any(retry_info_url, retry_info(seconds, nanos))));
}

Test(otlp_answer, the_retry_delay_is_parsed)
{
	cr_expect_eq(delay_of(0, 0), 0);
	cr_expect_eq(delay_of(1, 234000000), 1234000000);
	cr_expect_eq(delay_of(0, 1), 1);
	cr_expect_eq(delay_of(-1, 0), 0);
	cr_expect_eq(delay_of(0, -1), 0);
	cr_expect_eq(delay_of(1, -1), 999999999);
	cr_expect_eq(delay_of(315576000000, 0), INT64_MAX);
	cr_expect_eq(delay_of(9223372036, 854775807), INT64_MAX);
	cr_expect_eq(delay_of(9223372036, 999999999), INT64_MAX);
	cr_expect_eq(delay_of(INT64_MAX, 999999999), INT64_MAX);
	cr_expect_eq(delay_of(INT64_MIN, INT32_MIN), 0);
	/* A RetryInfo without a duration, or without any value, allows a retry. */
	cr_expect_eq(delay(status(any(retry_info_url, empty))), 0);
	cr_expect_eq(delay(status(put_bytes(empty, 1, text(retry_info_url)))), 0);
	cr_expect_eq(delay(status(any("google.rpc.RetryInfo", retry_info(2, 0)))), 2000000000);
}

Test(otlp_answer, a_status_without_retry_info_has_no_delay)
{
	cr_expect_eq(otlp_status_retry_delay_ns(NULL, 0), -1);
	cr_expect_eq(delay(put_number(empty, 1, 8)), -1);
	cr_expect_eq(delay(status(empty)), -1);
	cr_expect_eq(delay(status(any("type.googleapis.com/google.rpc.DebugInfo", empty))), -1);
	cr_expect_eq(delay(status(any("x/google.rpc.RetryInfo2", retry_info(1, 0)))), -1);
	cr_expect_eq(delay(status(any("x/not.google.rpc.RetryInfo", retry_info(1, 0)))), -1);
	cr_expect_eq(delay(status(any("RetryInfo", retry_info(1, 0)))), -1);
	/* A damaged detail counts as none. */
	cr_expect_eq(delay(status(any(retry_info_url, text("\x0a\x7f")))), -1);
	cr_expect_eq(delay(status(any(retry_info_url, text("\x0a\x02\x08\xff")))), -1);
}

Test(otlp_answer, the_longest_of_several_delays_counts)
{
	struct bytes b = status(any("x/google.rpc.Help", text("\xff\xff")));

	b = put_bytes(b, 3, any(retry_info_url, retry_info(3, 0)));
	b = put_bytes(b, 3, any(retry_info_url, retry_info(1, 0)));
	b = put_bytes(b, 3, any(retry_info_url, text("\x0a\x7f")));
	b = put_bytes(b, 3, text("\xff"));
	cr_expect_eq(delay(b), 3000000000);
	/* What follows a fault of the status itself is not read. */
	cr_expect_eq(delay(put(b, "\x1a", 1)), -1);
	cr_expect_eq(delay(put(b, "\x0b", 1)), -1);
}

/* --- compressed answers --- */

static uint8_t *pack(const uint8_t *data, size_t length, int window_bits, size_t *packed_length)
{
	uint8_t *out = malloc(length + 1024);
	z_stream z = {.next_in = (uint8_t *)data,
		      .avail_in = (unsigned int)length,
		      .next_out = out,
		      .avail_out = (unsigned int)length + 1024};

	cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	*packed_length = z.total_out;
	deflateEnd(&z);
	return out;
}

static void check_inflate(size_t length, size_t most, int window_bits, int expected)
{
	_cleanup_free_ uint8_t *data = calloc(1, length + 1), *packed = NULL, *out = NULL;
	size_t packed_length, out_length = 0;

	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(i / 7);
	packed = pack(data, length, window_bits, &packed_length);
	cr_assert_eq(otlp_answer_inflate(packed, packed_length, most, &out, &out_length), expected,
		     "%zu in %zu", length, most);
	if (expected)
		cr_assert_null(out);
	else
		cr_assert(out && out_length == length && !memcmp(out, data, length));
}

Test(otlp_answer, compressed_answers_are_decompressed)
{
	static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 16384, 100000};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t n = lengths[i];

		for (int gzip = 0; gzip < 2; gzip++) {
			check_inflate(n, 100000, 15 + 16 * gzip, 0);
			check_inflate(n, n, 15 + 16 * gzip, 0);
			if (n)
				check_inflate(n, n - 1, 15 + 16 * gzip, -EFBIG);
		}
	}
}

Test(otlp_answer, damaged_compressed_answers_are_refused)
{
	_cleanup_free_ uint8_t *packed = NULL;
	static const uint8_t data[10000] = {1, 2, 3};
	size_t length, out_length;
	uint8_t *out = NULL;

	packed = pack(data, sizeof(data), 31, &length);
	for (size_t cut = 0; cut < length; cut++)
		cr_expect_eq(otlp_answer_inflate(packed, cut, 1 << 20, &out, &out_length),
			     -EBADMSG);
	packed[length - 1] ^= 1;
	cr_expect_eq(otlp_answer_inflate(packed, length, 1 << 20, &out, &out_length), -EBADMSG);
	cr_expect_null(out);
}

/* --- texts --- */

static const char *print(const char *s, size_t length, size_t size)
{
	static char out[64];

	memset(out, 'X', sizeof(out));
	cr_assert_eq(otlp_answer_print((const uint8_t *)s, length, out, size), out);
	for (size_t i = size; i < sizeof(out); i++)
		cr_assert_eq(out[i], 'X');
	return out;
}

Test(otlp_answer, messages_are_escaped_and_cut)
{
	cr_expect_str_eq(print("", 0, 10), "");
	cr_expect_str_eq(print("plain text", 10, 11), "plain text");
	cr_expect_str_eq(print("a\0b\n\x1b\xff", 6, 64), "a\\x00b\\x0a\\x1b\\xff");
	cr_expect_str_eq(print("plain text", 10, 10), "plain ...");
	cr_expect_str_eq(print("plain text", 10, 4), "...");
	cr_expect_str_eq(print("plain text", 10, 3), "..");
	cr_expect_str_eq(print("plain text", 10, 1), "");
	cr_expect_str_eq(print("\x01", 1, 5), "\\x01");
	cr_expect_str_eq(print("\x01", 1, 4), "...");
	cr_expect_str_eq(print("ab\x01\x02", 4, 10), "ab\\x01...");
	print("text", 4, 0);
}
