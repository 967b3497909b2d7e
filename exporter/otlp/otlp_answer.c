/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages, with the numbers of their fields:
 *
 *	ExportProfilesServiceResponse
 *		partial_success = 1 { rejected_profiles = 1, error_message = 2 }
 *	google.rpc.Status
 *		details = 3 (repeated), google.protobuf.Any { type_url = 1, value = 2 }
 *	google.rpc.RetryInfo
 *		retry_delay = 1, google.protobuf.Duration { seconds = 1, nanos = 2 }
 *
 * As in protobuf, the last of several values of a field counts, and a submessage that occurs
 * several times is merged.
 */
#include "exporter/otlp/otlp_answer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/time_units.h"
#include "exporter/otlp/proto_in.h"

static int read_partial(struct cursor at, struct otlp_answer *answer)
{
	struct proto_field field;
	int got;

	while ((got = proto_next(&at, &field)) > 0) {
		if (proto_is(&field, 1, PROTO_VARINT)) {
			/* The field is an int64; a negative number counts as 0. */
			answer->rejected_profiles =
			    field.value > (uint64_t)INT64_MAX ? 0 : field.value;
		} else if (proto_is(&field, 2, PROTO_BYTES)) {
			answer->message = field.bytes.base;
			answer->message_length = cursor_left(&field.bytes);
		}
	}
	return got;
}

int otlp_answer_read(const uint8_t *data, size_t length, struct otlp_answer *answer)
{
	struct cursor at = cursor_init(data, length);
	struct otlp_answer read = {0};
	struct proto_field field;
	int got;

	while ((got = proto_next(&at, &field)) > 0) {
		if (proto_is(&field, 1, PROTO_BYTES) && read_partial(field.bytes, &read) < 0)
			return -EBADMSG;
	}
	if (got < 0)
		return got;
	if (!read.message_length)
		read.message = NULL;
	read.partial = read.rejected_profiles || read.message_length;
	*answer = read;
	return 0;
}

struct duration {
	int64_t seconds;
	int32_t nanos;
};

static int read_duration(struct cursor at, struct duration *duration)
{
	struct proto_field field;
	int got;

	while ((got = proto_next(&at, &field)) > 0) {
		if (proto_is(&field, 1, PROTO_VARINT))
			duration->seconds = (int64_t)field.value;
		else if (proto_is(&field, 2, PROTO_VARINT))
			duration->nanos = (int32_t)field.value;
	}
	return got;
}

static int64_t duration_ns(struct duration duration)
{
	int64_t ns;

	if (__builtin_mul_overflow(duration.seconds, (int64_t)NS_PER_S, &ns))
		return duration.seconds < 0 ? 0 : INT64_MAX;
	if (__builtin_add_overflow(ns, (int64_t)duration.nanos, &ns))
		return duration.nanos < 0 ? 0 : INT64_MAX;
	return ns < 0 ? 0 : ns;
}

/* Returns the delay of a RetryInfo, 0 if it has none, or -EBADMSG. */
static int64_t read_retry_info(struct cursor at)
{
	struct duration duration = {0};
	struct proto_field field;
	int got;

	while ((got = proto_next(&at, &field)) > 0) {
		if (proto_is(&field, 1, PROTO_BYTES) && read_duration(field.bytes, &duration) < 0)
			return -EBADMSG;
	}
	return got < 0 ? got : duration_ns(duration);
}

/* Returns whether a type URL names RetryInfo. It is the full name, usually after a prefix and a
 * slash. */
static bool is_retry_info(struct cursor url)
{
	static const char name[] = "google.rpc.RetryInfo";
	const size_t length = sizeof(name) - 1, left = cursor_left(&url);

	if (left < length || memcmp(url.end - length, name, length) != 0)
		return false;
	return left == length || url.end[-(ptrdiff_t)length - 1] == '/';
}

/* Returns the delay of a detail, or -1 if it is another message or malformed. */
static int64_t read_detail(struct cursor at)
{
	struct cursor url = cursor_init(NULL, 0), value = url;
	struct proto_field field;
	int got;

	while ((got = proto_next(&at, &field)) > 0) {
		if (proto_is(&field, 1, PROTO_BYTES))
			url = field.bytes;
		else if (proto_is(&field, 2, PROTO_BYTES))
			value = field.bytes;
	}
	if (got < 0 || !is_retry_info(url))
		return -1;
	int64_t delay = read_retry_info(value);
	return delay < 0 ? -1 : delay;
}

int64_t otlp_status_retry_delay_ns(const uint8_t *data, size_t length)
{
	struct cursor at = cursor_init(data, length);
	struct proto_field field;
	int64_t longest = -1;
	int got;

	while ((got = proto_next(&at, &field)) > 0) {
		if (!proto_is(&field, 3, PROTO_BYTES))
			continue;
		int64_t delay = read_detail(field.bytes);
		if (delay > longest)
			longest = delay;
	}
	return got < 0 ? -1 : longest;
}

enum {
	INFLATE_FIRST_BYTES = 4096 /* most answers have a few bytes */
};

static void end_inflate(z_stream *stream)
{
	inflateEnd(stream);
}

int otlp_answer_inflate(const uint8_t *data, size_t length, size_t bytes_max, uint8_t **out,
			size_t *out_length)
{
	_cleanup_(end_inflate) z_stream stream = {0};
	_cleanup_free_ uint8_t *buffer = NULL;
	size_t size = 0;
	int r = Z_OK;

	if (length > UINT_MAX || bytes_max >= UINT_MAX)
		return -EFBIG;
	/* 15: the largest window; 32: gzip or zlib, whichever the header says */
	if (inflateInit2(&stream, 15 + 32) != Z_OK)
		return -ENOMEM;
	stream.next_in = (uint8_t *)data;
	stream.avail_in = (unsigned int)length;
	/* There is room for one byte more than allowed, which shows that an answer is too long. */
	while (r == Z_OK && stream.total_out <= bytes_max) {
		if (ARRAY_RESERVE(buffer, size, stream.total_out + 1, INFLATE_FIRST_BYTES,
				  bytes_max + 1) < 0)
			return -ENOMEM;
		stream.next_out = buffer + stream.total_out;
		stream.avail_out = (unsigned int)(size - stream.total_out);
		r = inflate(&stream, Z_NO_FLUSH);
		if (r == Z_OK && stream.avail_out)
			return -EBADMSG; /* the stream is cut off */
	}
	if (stream.total_out > bytes_max)
		return -EFBIG;
	if (r != Z_STREAM_END)
		return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	*out_length = stream.total_out;
	*out = TAKE_PTR(buffer);
	return 0;
}

const char *otlp_answer_print(const uint8_t *text, size_t length, char *out, size_t size)
{
	static const char cut[] = "...";
	size_t used = 0;
	/* Where the text is cut if it is too long: the last place that leaves room for the dots. */
	size_t mark = 0;

	if (!size)
		return out;
	for (size_t i = 0; i < length; i++) {
		const bool plain = text[i] >= 0x20 && text[i] < 0x7f;
		const size_t need = plain ? 1 : 4;

		if (used + sizeof(cut) <= size)
			mark = used;
		if (used + need >= size) {
			snprintf(out + mark, size - mark, "%s", cut);
			return out;
		}
		if (plain)
			out[used++] = (char)text[i];
		else
			used += (size_t)snprintf(out + used, size - used, "\\x%02x", text[i]);
	}
	out[used] = 0;
	return out;
}
