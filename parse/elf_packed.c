/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads parts of a section that is compressed by zlib.
 *
 * How this works. Bytes of a DEFLATE stream (RFC 1951) can only be decompressed in order, since
 * each may be a copy of what is up to 32 KiB before it. But with these 32 KiB, decompressing can
 * begin wherever a block of the stream does. So the stream is decompressed once, and the index gets
 * a point from time to time: where a block begins, with the 32 KiB before it. They are debug
 * information like the rest, and so they are kept compressed, too, by zstd, which is faster. A read
 * begins at the last point before the bytes that are wanted. What is decompressed, for the index or
 * for a read, stays in memory until others need the room. So reads from the beginning to the end,
 * while the index is made, cost nothing more.
 *
 * Example: points are at 0, 65 KiB, 131 KiB and so on. A read of 200 bytes at 100 KiB decompresses
 * what is from 65 KiB on. One at 70 KiB copies from there, and one at 101 KiB goes on.
 *
 * A stream may have blocks without end, or endless empty ones, which no compressor writes. Reads
 * would take as long, so such a stream is refused.
 */
#include "parse/elf_packed.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/array.h"
#include "parse/elf_decompress.h"

enum {
	WINDOW_BYTES = 32 << 10, /* RFC 1951, 2: how far back copies may reach */
	WINDOW_LEVEL = 1,	 /* of zstd: the fastest one */
	HEADER_BYTES = 2,	 /* of a zlib stream (RFC 1950, 2.2) */
	INPUT_BYTES = 16 << 10,	 /* that are read from the file at once */
	OUTPUT_BYTES = 32 << 10, /* that the index decompresses at once */
	/* A section is divided into at most this many spans, which have at least
	 * SPAN_BYTES_MIN. A span is longer by up to a block, which zlib ends after 16,384 copies or
	 * bytes, each of up to 258. */
	SPANS = 512,
	SPAN_BYTES_MIN = 128 << 10,
	SPAN_BYTES_MOST = ELF_PACKED_BYTES_MAX / SPANS + 16384 * 258,
	/* What a span takes in the file. Incompressible blocks have a few bytes more. */
	SPAN_INPUT_MOST = 2 * (ELF_PACKED_BYTES_MAX / SPANS),
	/* Bytes of memory for what is before all points: some 20 KiB for each. */
	POINTS_BYTES_MAX = 12 << 20,
	/* The cost of compressing what is before a point, and of decompressing it: 130 us and
	 * 40 us. */
	KEEP_COST = WINDOW_BYTES + WINDOW_BYTES / 4,
	RESTORE_COST = WINDOW_BYTES / 2,
};

/* Where decompressing can begin. */
struct point {
	uint64_t out;	 /* bytes that are decompressed before it */
	uint64_t in;	 /* bytes of the stream before it */
	uint8_t bits;	 /* of the last of these bytes, which belong to what follows */
	uint8_t *window; /* the bytes before `out`, compressed; NULL: none are needed */
	size_t window_bytes;
	uint8_t *bytes; /* from here to the next point; NULL: they are not in memory */
	size_t room;	/* for that many of them */
	size_t filled;	/* how many of them are decompressed */
	uint64_t used;	/* the last time; a larger number is later */
};

struct elf_packed {
	uint64_t offset, length; /* of the stream in the file */
	uint64_t size;		 /* when it is decompressed */
	uint64_t span_bytes;
	struct point *points;
	size_t count, capacity;
	size_t windows_bytes, spans_bytes, spans_bytes_max; /* of memory */
	uint64_t uses;
	uint64_t readable;	  /* bytes that the index covers, from the beginning */
	int state;		  /* of the index: 0, -EAGAIN, or why there is none */
	struct elf_source source; /* of the present read */
	uint64_t *unpaid;
	z_stream stream;
	uint64_t in, out;	    /* where the stream is */
	size_t stream_at;	    /* in which span; `count`: in none */
	uint8_t input[INPUT_BYTES]; /* that the stream takes its bytes from */
	uint8_t window[WINDOW_BYTES];
};

int elf_packed_open(const struct elf_image *image, const struct elf_section *section,
		    size_t keep_bytes, struct elf_packed **packed)
{
	uint8_t header[sizeof(Elf64_Chdr) + HEADER_BYTES];
	struct elf_compression compression;

	if (section->size < sizeof(header))
		return -EBADMSG;
	int r = image->source.read(image->source.context, section->offset, header, sizeof(header));
	if (r == 0)
		r = elf_compression_read(header, section->size, &compression);
	if (r < 0)
		return r;
	if (compression.type != ELFCOMPRESS_ZLIB || compression.size > ELF_PACKED_BYTES_MAX)
		return -EFBIG;
	/* RFC 1950, 2.2: the method is DEFLATE, without a dictionary that is agreed upon. */
	const uint8_t *zlib = header + sizeof(Elf64_Chdr);
	if ((zlib[0] & 0xf) != Z_DEFLATED || (zlib[1] & 0x20) || (zlib[0] << 8 | zlib[1]) % 31)
		return -EBADMSG;
	struct elf_packed *made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	if (inflateInit2(&made->stream, -MAX_WBITS) != Z_OK) {
		free(made);
		return -ENOMEM;
	}
	made->offset = section->offset + sizeof(header);
	made->length = section->size - sizeof(header);
	made->size = compression.size;
	made->spans_bytes_max = keep_bytes;
	made->span_bytes = made->size / SPANS;
	if (made->span_bytes < SPAN_BYTES_MIN)
		made->span_bytes = SPAN_BYTES_MIN;
	made->state = -EAGAIN;
	*packed = made;
	return 0;
}

void elf_packed_free(struct elf_packed *packed)
{
	if (!packed)
		return;
	inflateEnd(&packed->stream);
	for (size_t i = 0; i < packed->count; i++) {
		free(packed->points[i].window);
		free(packed->points[i].bytes);
	}
	free(packed->points);
	free(packed);
}

uint64_t elf_packed_length(const struct elf_packed *packed)
{
	return packed->size;
}

size_t elf_packed_bytes(const struct elf_packed *packed)
{
	return sizeof(*packed) + WINDOW_BYTES + packed->spans_bytes + packed->windows_bytes +
	       packed->capacity * sizeof(packed->points[0]);
}

/* Has the stream take the bytes from `in` on. Returns 0 or an error. */
static int input_read(struct elf_packed *packed)
{
	const uint64_t left = packed->length - packed->in;
	const size_t length = left < INPUT_BYTES ? (size_t)left : INPUT_BYTES;
	const int r = packed->source.read(packed->source.context, packed->offset + packed->in,
					  packed->input, length);

	packed->stream.next_in = packed->input;
	packed->stream.avail_in = r ? 0 : (uInt)length;
	return r;
}

/* Decompresses up to `room` bytes, and stops where a block ends. Returns their number, or an error;
 * 0: it has stopped. What this has cost is added to `cost`: most of it depends on the bytes that go
 * in, since long copies take little time. */
static int inflate_some(struct elf_packed *packed, uint8_t *to, size_t room, uint64_t *cost)
{
	z_stream *stream = &packed->stream;

	if (!stream->avail_in && packed->in < packed->length) {
		const int r = input_read(packed);

		if (r < 0)
			return r;
	}
	const uInt before = stream->avail_in;
	stream->next_out = to;
	stream->avail_out = (uInt)room;
	const int status = inflate(stream, Z_BLOCK);
	const uint64_t in = before - stream->avail_in, out = room - stream->avail_out;
	packed->in += in;
	packed->out += out;
	*cost += 4 * in + out / 4;
	if (status == Z_MEM_ERROR)
		return -ENOMEM;
	/* After the end, there are neither bytes nor blocks. */
	if (status != Z_OK && !(status == Z_STREAM_END && (in || out)))
		return -EBADMSG;
	return (int)out;
}

/* Returns whether the last block has ended. */
static bool stream_has_ended(const struct elf_packed *packed)
{
	return (packed->stream.data_type & 0xc0) == 0xc0;
}

/* Returns whether a block begins where the stream is. */
static bool is_between_blocks(const struct elf_packed *packed)
{
	return (packed->stream.data_type & 0xc0) == 0x80;
}

/* --- spans --- */

/* Returns how many bytes there are from a point to the next one, or to the end of the index. */
static size_t span_length(const struct elf_packed *packed, size_t at)
{
	const uint64_t end = at + 1 < packed->count ? packed->points[at + 1].out : packed->readable;

	return (size_t)(end - packed->points[at].out);
}

/* Gives the stream what is before a point. */
static int window_restore(struct elf_packed *packed, const struct point *point)
{
	if (!point->window)
		return 0;
	const size_t length =
	    ZSTD_decompress(packed->window, WINDOW_BYTES, point->window, point->window_bytes);
	if (ZSTD_isError(length) ||
	    inflateSetDictionary(&packed->stream, packed->window, (uInt)length) != Z_OK)
		return -ENOMEM;
	return 0;
}

/* Has the stream begin at a point. */
static int begin_at(struct elf_packed *packed, const struct point *point)
{
	if (inflateReset(&packed->stream) != Z_OK)
		return -EINVAL;
	packed->out = point->out;
	packed->in = point->in - (point->bits > 0);
	int r = input_read(packed);
	if (r == 0 && point->bits) {
		const int value = packed->input[0] >> (8 - point->bits);

		packed->stream.next_in++;
		packed->stream.avail_in--;
		packed->in++;
		r = inflatePrime(&packed->stream, point->bits, value) == Z_OK ? 0 : -EBADMSG;
	}
	return r < 0 ? r : window_restore(packed, point);
}

static void span_drop(struct elf_packed *packed, struct point *point)
{
	free(point->bytes);
	point->bytes = NULL;
	packed->spans_bytes -= point->room;
	point->room = point->filled = 0;
}

/* Drops the span that was not used for the longest time, but not the given one. While the index is
 * made, it drops the first one, since reads follow the index then. Returns false if there is no
 * other one. */
static bool span_drop_least_used(struct elf_packed *packed, const struct point *kept)
{
	struct point *least = NULL;

	for (size_t i = 0; i < packed->count; i++) {
		struct point *point = &packed->points[i];

		if (!point->bytes || point == kept)
			continue;
		if (!least || (packed->state == 0 && point->used < least->used))
			least = point;
	}
	if (least)
		span_drop(packed, least);
	return least != NULL;
}

/* Makes room for bytes from a point on; those that are there stay. Returns 0 or -ENOMEM. */
static int span_reserve(struct elf_packed *packed, struct point *point, size_t room)
{
	if (point->room >= room)
		return 0;
	while (packed->spans_bytes + room - point->room > packed->spans_bytes_max &&
	       span_drop_least_used(packed, point))
		;
	uint8_t *bytes = realloc(point->bytes, room);
	if (!bytes)
		return -ENOMEM;
	packed->spans_bytes += room - point->room;
	point->bytes = bytes;
	point->room = room;
	return 0;
}

/* Gives back the room that a span does not need. */
static void span_trim(struct elf_packed *packed, struct point *point)
{
	uint8_t *bytes = point->filled ? realloc(point->bytes, point->filled) : NULL;

	if (!bytes) {
		span_drop(packed, point);
		return;
	}
	packed->spans_bytes -= point->room - point->filled;
	point->bytes = bytes;
	point->room = point->filled;
}

/* Has the stream begin with a span. */
static int span_begin(struct elf_packed *packed, size_t at, uint64_t *cost)
{
	packed->points[at].filled = 0;
	packed->stream_at = packed->count;
	*cost += RESTORE_COST;
	const int r = begin_at(packed, &packed->points[at]);
	if (r == 0)
		packed->stream_at = at;
	return r;
}

/* Goes on with the span in which the stream is, until it has `length` bytes. */
static int span_fill(struct elf_packed *packed, struct point *point, size_t length, uint64_t *cost)
{
	int r = 0;

	while (point->filled < length && r >= 0) {
		r = inflate_some(packed, point->bytes + point->filled, length - point->filled,
				 cost);
		if (r == 0 && stream_has_ended(packed))
			r = -EBADMSG; /* the file has changed */
		point->filled += r > 0 ? (size_t)r : 0;
	}
	if (r < 0)
		packed->stream_at = packed->count;
	return r < 0 ? r : 0;
}

/* Has the first `length` bytes of a span in memory. One that was left is decompressed to its end
 * now. Returns 0 or an error. */
static int span_load(struct elf_packed *packed, size_t at, size_t length, uint64_t *cost)
{
	struct point *point = &packed->points[at];
	int r = 0;

	point->used = ++packed->uses;
	if (point->filled >= length)
		return 0;
	if (packed->stream_at != at || !point->bytes) {
		if (point->filled)
			length = span_length(packed, at);
		r = span_reserve(packed, point, span_length(packed, at));
		if (r == 0)
			r = span_begin(packed, at, cost);
	}
	return r < 0 ? r : span_fill(packed, point, length, cost);
}

/* --- the index --- */

/* Keeps what is before a point where the stream is. */
static int window_keep(struct elf_packed *packed, struct point *point, uint64_t *cost)
{
	uint8_t compressed[ZSTD_COMPRESSBOUND(WINDOW_BYTES)];
	uInt window_bytes = 0;

	inflateGetDictionary(&packed->stream, packed->window, &window_bytes);
	const size_t length = ZSTD_compress(compressed, sizeof(compressed), packed->window,
					    window_bytes, WINDOW_LEVEL);
	if (ZSTD_isError(length))
		return -ENOMEM;
	if (packed->windows_bytes + length > POINTS_BYTES_MAX)
		return -EFBIG;
	point->window = malloc(length);
	if (!point->window)
		return -ENOMEM;
	memcpy(point->window, compressed, length);
	point->window_bytes = length;
	packed->windows_bytes += length;
	*cost += KEEP_COST;
	return 0;
}

/* Adds a point where the stream is. */
static int point_add(struct elf_packed *packed, uint64_t *cost)
{
	struct point point = {.out = packed->out,
			      .in = packed->in,
			      .bits = (uint8_t)(packed->stream.data_type & 7),
			      .used = ++packed->uses};
	int r = ARRAY_RESERVE(packed->points, packed->capacity, packed->count + 1, 64, SPANS + 1);

	if (r == 0 && packed->out)
		r = window_keep(packed, &point, cost);
	if (r < 0)
		return r == -E2BIG ? -EFBIG : r;
	if (packed->count)
		span_trim(packed, &packed->points[packed->count - 1]);
	packed->points[packed->count] = point;
	packed->stream_at = packed->count++;
	return 0;
}

/* Has the stream be where the index ends, and makes room for what follows. */
static int index_seek(struct elf_packed *packed, uint64_t *cost)
{
	const size_t at = packed->count - 1, length = span_length(packed, at);
	struct point *last = &packed->points[at];
	size_t room = last->room < packed->span_bytes ? packed->span_bytes : last->room;
	int r;

	if (room < length + OUTPUT_BYTES)
		room += room / 2 + OUTPUT_BYTES;
	r = span_reserve(packed, last, room < SPAN_BYTES_MOST ? room : SPAN_BYTES_MOST);
	if (r == 0 && (packed->stream_at != at || last->filled < length)) {
		r = span_begin(packed, at, cost);
		if (r == 0)
			r = span_fill(packed, last, length, cost);
	}
	return r;
}

/* Decompresses a piece. Returns the state of the index after it. */
static int index_go_on(struct elf_packed *packed, uint64_t *cost)
{
	int r = packed->count ? 0 : point_add(packed, cost);

	if (r == 0)
		r = index_seek(packed, cost);
	if (r < 0)
		return r;
	struct point *last = &packed->points[packed->count - 1];
	const size_t room = last->room - last->filled;
	r = inflate_some(packed, last->bytes + last->filled,
			 room < OUTPUT_BYTES ? room : OUTPUT_BYTES, cost);
	if (r < 0)
		return r;
	last->filled += (size_t)r;
	packed->readable = packed->out;
	if (packed->out > packed->size)
		return -EBADMSG;
	if (stream_has_ended(packed)) {
		span_trim(packed, last);
		return packed->out == packed->size ? 0 : -EBADMSG;
	}
	if (packed->in - last->in > SPAN_INPUT_MOST)
		return -EBADMSG;
	if (last->filled >= packed->span_bytes && is_between_blocks(packed))
		r = point_add(packed, cost);
	return r < 0 ? r : -EAGAIN;
}

/* Goes on as elf_packed_index(). The cost of the last piece may be more than what is left. */
static int index_until(struct elf_packed *packed, uint64_t until, uint64_t left, uint64_t *cost)
{
	const uint64_t cost_before = *cost;

	while (packed->state == -EAGAIN && *cost - cost_before < left &&
	       (until >= packed->size || packed->readable < until))
		packed->state = index_go_on(packed, cost);
	return packed->state == -EAGAIN && until < packed->size && packed->readable >= until
		   ? 0
		   : packed->state;
}

int elf_packed_index(struct elf_packed *packed, const struct elf_source *source, uint64_t until,
		     uint64_t *left)
{
	uint64_t cost = 0;

	packed->source = *source;
	const int r = index_until(packed, until, *left, &cost);
	*left -= cost < *left ? cost : *left;
	return r;
}

/* --- reading --- */

/* Returns the index of the last point that is not after an offset. */
static size_t point_find(const struct elf_packed *packed, uint64_t offset)
{
	size_t low = 0, high = packed->count;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (packed->points[middle].out <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static int packed_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct elf_packed *packed = context;
	uint8_t *to = buffer;

	if (packed->state && packed->state != -EAGAIN)
		return packed->state;
	if (offset > packed->size || length > packed->size - offset)
		return -ENODATA;
	const uint64_t end = offset + length;
	if (end > packed->readable && end - packed->readable > ELF_PACKED_AHEAD_MAX)
		return -EAGAIN;
	int r = index_until(packed, end, UINT64_MAX, packed->unpaid);
	while (length > 0 && r == 0) {
		const size_t at = point_find(packed, offset);
		const size_t from = (size_t)(offset - packed->points[at].out);
		size_t part = span_length(packed, at) - from;

		if (part > length)
			part = length;
		r = span_load(packed, at, from + part, packed->unpaid);
		if (r < 0)
			break;
		memcpy(to, packed->points[at].bytes + from, part);
		to += part;
		offset += part;
		length -= part;
	}
	return r;
}

struct elf_source elf_packed_source(struct elf_packed *packed, const struct elf_source *source,
				    uint64_t *unpaid)
{
	packed->source = *source;
	packed->unpaid = unpaid;
	return (struct elf_source){.read = packed_read, .context = packed, .size = packed->size};
}
