/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of sections that are compressed by zlib. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "parse/elf_packed.h"

enum {
	PLAIN_BYTES = 3 << 20,
	ROOM = PLAIN_BYTES + PLAIN_BYTES / 4,
	KEEP_BYTES = 400 << 10,
	/* At most, with this content: two spans, and what is before 24 points. */
	BYTES_MOST = KEEP_BYTES + (512 << 10) + 24 * (36 << 10),
	READS = 300,
	PART_BYTES_MAX = 200 << 10,
	COPY_BYTES = 258, /* of the longest copy (RFC 1951, 3.2.5) */
};

static uint8_t plain[PLAIN_BYTES];
static uint8_t file[sizeof(Elf64_Chdr) + ROOM];
static struct elf_buffer buffer;
static struct elf_image image;
static struct elf_section section;
static struct elf_packed *packed;
static uint64_t unpaid;

/* Like debug information: numbers, and words that come again. */
static void setup(void)
{
	static const char *const words[] = {"std::vector", "_ZN4core3fmt", "operator", "struct "};

	srand(18);
	for (size_t i = 0; i < PLAIN_BYTES;) {
		const char *word = words[rand() % 4];
		const size_t left = PLAIN_BYTES - i;
		const size_t length = strlen(word) < left ? strlen(word) : left;

		memcpy(plain + i, word, length);
		i += length;
		for (int n = rand() % 12; n > 0 && i < PLAIN_BYTES; n--)
			plain[i++] = (uint8_t)rand();
	}
}

static void teardown(void)
{
	elf_packed_free(packed);
}

TestSuite(elf_packed, .init = setup, .fini = teardown, .timeout = 60);

/* Makes the section of a stream that follows the header in the file. */
static void set_section(uint64_t size, size_t stream_bytes)
{
	const Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = size};

	memcpy(file, &header, sizeof(header));
	section =
	    (struct elf_section){.flags = SHF_COMPRESSED, .size = sizeof(header) + stream_bytes};
	buffer = (struct elf_buffer){file, section.size};
	image.source = elf_source_from_buffer(&buffer);
}

/* Compresses the plain bytes. Blocks end after every `flush_bytes`, too, if that is not 0. */
static void compress_plain(int level, size_t flush_bytes)
{
	z_stream stream = {0};

	cr_assert_eq(deflateInit(&stream, level), Z_OK);
	stream.next_out = file + sizeof(Elf64_Chdr);
	stream.avail_out = ROOM;
	for (size_t at = 0; flush_bytes && at + flush_bytes < PLAIN_BYTES; at += flush_bytes) {
		stream.next_in = plain + at;
		stream.avail_in = (uInt)flush_bytes;
		cr_assert_eq(deflate(&stream, Z_SYNC_FLUSH), Z_OK);
	}
	stream.next_in = plain + stream.total_in;
	stream.avail_in = (uInt)(PLAIN_BYTES - stream.total_in);
	cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
	set_section(PLAIN_BYTES, stream.total_out);
	deflateEnd(&stream);
}

static int open_packed(void)
{
	elf_packed_free(packed);
	packed = NULL;
	return elf_packed_open(&image, &section, KEEP_BYTES, &packed);
}

static int complete_index(void)
{
	uint64_t left = UINT64_MAX;

	return elf_packed_index(packed, &image.source, UINT64_MAX, &left);
}

static int open_indexed(void)
{
	const int r = open_packed();

	return r < 0 ? r : complete_index();
}

static int read_part(uint64_t offset, void *bytes, size_t length)
{
	const struct elf_source source = elf_packed_source(packed, &image.source, &unpaid);

	return source.read(source.context, offset, bytes, length);
}

static void check_part(uint64_t offset, size_t length)
{
	static uint8_t bytes[PART_BYTES_MAX];

	cr_assert_eq(read_part(offset, bytes, length), 0);
	cr_assert_eq(memcmp(bytes, plain + offset, length), 0, "%zu at %zu", length,
		     (size_t)offset);
}

/* Reads parts of any length, anywhere. */
static void check_reads(size_t size)
{
	uint8_t bytes[2];

	for (int i = 0; i < READS; i++) {
		const size_t offset = (size_t)rand() % size;
		size_t length = (size_t)rand() % (i % 4 ? 128 : PART_BYTES_MAX);

		if (length > size - offset)
			length = size - offset;
		check_part(offset, length);
		cr_assert_leq(elf_packed_bytes(packed), BYTES_MOST);
	}
	cr_expect_eq(read_part(0, bytes, 1), 0);
	cr_expect_eq(read_part(size, bytes, 0), 0);
	cr_expect_eq(read_part(size - 1, bytes, 2), -ENODATA);
	cr_expect_eq(read_part(UINT64_MAX, bytes, 2), -ENODATA);
}

Test(elf_packed, parts_are_those_of_the_whole)
{
	for (int level = 0; level <= 9; level += 3) {
		compress_plain(level, 0);
		cr_assert_eq(open_indexed(), 0);
		cr_expect_eq(elf_packed_length(packed), PLAIN_BYTES);
		check_reads(PLAIN_BYTES);
	}
}

/* lld compresses pieces in parallel, and joins them. */
Test(elf_packed, a_stream_may_have_been_flushed)
{
	compress_plain(6, 100000);
	cr_assert_eq(open_indexed(), 0);
	check_reads(PLAIN_BYTES);
	compress_plain(6, 50);
	cr_assert_eq(open_indexed(), 0);
	check_reads(PLAIN_BYTES);
}

Test(elf_packed, a_small_section_has_one_span)
{
	uLongf length = ROOM;

	cr_assert_eq(compress(file + sizeof(Elf64_Chdr), &length, plain, 1), Z_OK);
	set_section(1, length);
	cr_assert_eq(open_indexed(), 0);
	check_reads(1);
}

Test(elf_packed, the_index_is_made_in_parts)
{
	uint8_t byte;
	unsigned int parts = 1;

	compress_plain(6, 0);
	cr_assert_eq(open_packed(), 0);
	cr_expect_eq(read_part(PLAIN_BYTES - 1, &byte, 1), -EAGAIN);
	for (uint64_t left = 1 << 20;
	     elf_packed_index(packed, &image.source, UINT64_MAX, &left) == -EAGAIN;
	     left = 1 << 20, parts++)
		cr_assert_eq(left, 0);
	cr_expect_geq(parts, 5);
	check_reads(PLAIN_BYTES);
}

/* Reads what the index covers, while it goes on. */
Test(elf_packed, what_is_covered_can_be_read)
{
	compress_plain(6, 0);
	cr_assert_eq(open_packed(), 0);
	for (size_t covered = 1000; covered < PLAIN_BYTES; covered += (size_t)rand() % 200000) {
		uint64_t left = UINT64_MAX;
		const size_t length = covered < PART_BYTES_MAX ? covered : PART_BYTES_MAX;

		cr_assert_eq(elf_packed_index(packed, &image.source, covered, &left), 0);
		for (int i = 0; i < 4; i++)
			check_part((size_t)rand() % (covered - length + 1), length);
		cr_assert_leq(elf_packed_bytes(packed), BYTES_MOST);
	}
	cr_assert_eq(complete_index(), 0);
	check_reads(PLAIN_BYTES);
}

Test(elf_packed, reads_in_step_with_the_index_cost_nothing)
{
	const size_t length = 1000;

	compress_plain(6, 0);
	cr_assert_eq(open_packed(), 0);
	for (size_t at = 0; at + length <= PLAIN_BYTES; at += length) {
		uint64_t left = UINT64_MAX;

		cr_assert_eq(elf_packed_index(packed, &image.source, at + length, &left), 0);
		check_part(at, length);
	}
	cr_expect_eq(unpaid, 0);
}

Test(elf_packed, reads_may_be_a_little_ahead_of_the_index)
{
	uint8_t byte;

	compress_plain(6, 0);
	cr_assert_eq(open_packed(), 0);
	for (size_t at = 0; at < 2 << 20; at += 777777) {
		cr_expect_eq(read_part(at + ELF_PACKED_AHEAD_MAX + (64 << 10), &byte, 1), -EAGAIN);
		check_part(at, 1000);
		cr_expect_gt(unpaid, 0);
		unpaid = 0;
	}
	cr_assert_eq(complete_index(), 0);
	check_reads(PLAIN_BYTES);
}

/* What is in memory costs nothing. */
Test(elf_packed, reads_say_what_they_cost)
{
	uint8_t bytes[16];

	compress_plain(6, 0);
	cr_assert_eq(open_indexed(), 0);
	cr_assert_eq(read_part(1 << 20, bytes, sizeof(bytes)), 0);
	cr_expect_gt(unpaid, 0);
	cr_expect_lt(unpaid, 1 << 20);
	unpaid = 0;
	cr_assert_eq(read_part(1 << 20, bytes, sizeof(bytes)), 0);
	cr_expect_eq(unpaid, 0);
}

Test(elf_packed, what_is_not_a_stream_of_this_length_is_refused)
{
	compress_plain(6, 0);
	const size_t stream_bytes = section.size - sizeof(Elf64_Chdr);

	set_section(PLAIN_BYTES - 1, stream_bytes);
	cr_expect_eq(open_indexed(), -EBADMSG);
	set_section(PLAIN_BYTES + 1, stream_bytes);
	cr_expect_eq(open_indexed(), -EBADMSG);
	set_section(PLAIN_BYTES, stream_bytes / 2);
	cr_expect_eq(open_indexed(), -EBADMSG);
	buffer.length /= 2;
	image.source = elf_source_from_buffer(&buffer);
	section.size = sizeof(Elf64_Chdr) + stream_bytes;
	cr_expect_eq(open_indexed(), -ENODATA);
}

Test(elf_packed, headers_are_checked)
{
	compress_plain(6, 0);
	const size_t stream_bytes = section.size - sizeof(Elf64_Chdr);
	uint8_t *zlib = file + sizeof(Elf64_Chdr);

	set_section((uint64_t)ELF_PACKED_BYTES_MAX + 1, stream_bytes);
	cr_expect_eq(open_packed(), -EFBIG);
	set_section(UINT64_MAX, stream_bytes);
	cr_expect_eq(open_packed(), -EBADMSG, "nothing is compressed so well");
	set_section(0, stream_bytes);
	cr_expect_eq(open_packed(), -ENOENT);
	set_section(PLAIN_BYTES, stream_bytes);
	file[0] = 2; /* ELFCOMPRESS_ZSTD */
	cr_expect_eq(open_packed(), -EFBIG);
	set_section(PLAIN_BYTES, stream_bytes);
	zlib[1] ^= 1;
	cr_expect_eq(open_packed(), -EBADMSG);
	zlib[0] = 0x78;
	zlib[1] = 0x20 + 31 - (0x7800 + 0x20) % 31; /* a dictionary */
	cr_expect_eq(open_packed(), -EBADMSG);
	section.size = sizeof(Elf64_Chdr) + 1;
	cr_expect_eq(open_packed(), -EBADMSG);
}

/* --- what no compressor writes --- */

static size_t bit_count;

/* Appends bits of the stream, the lowest one first. */
static void put_bits(unsigned int bits, unsigned int count)
{
	uint8_t *to = file + sizeof(Elf64_Chdr) + 2;

	for (; count > 0; count--, bits >>= 1, bit_count++) {
		if (bit_count % 8 == 0)
			to[bit_count / 8] = 0;
		to[bit_count / 8] |= (uint8_t)((bits & 1) << bit_count % 8);
	}
}

/* Makes a stream of one block, of a byte and copies of it (RFC 1951, 3.2.6; codes begin with their
 * highest bit). */
static void set_one_block(unsigned int copies)
{
	file[sizeof(Elf64_Chdr)] = 0x78;
	file[sizeof(Elf64_Chdr) + 1] = 0x01;
	bit_count = 0;
	put_bits(1, 1);	   /* the last block */
	put_bits(1, 2);	   /* with fixed codes */
	put_bits(0x0c, 8); /* the byte 0: 00110000 */
	for (unsigned int i = 0; i < copies; i++) {
		put_bits(0xa3, 8); /* 285, a copy of 258 bytes: 11000101 */
		put_bits(0, 5);	   /* of what is one byte before */
	}
	put_bits(0, 7 + 32); /* 256, the end; and a checksum */
	set_section(1 + (uint64_t)copies * COPY_BYTES, 2 + bit_count / 8 + 1);
}

Test(elf_packed, a_block_must_not_be_endless)
{
	memset(plain, 0, sizeof(plain));
	set_one_block(10000);
	cr_assert_eq(open_indexed(), 0);
	uint8_t last = 1;
	cr_expect_eq(read_part(10000 * COPY_BYTES, &last, 1), 0);
	cr_expect_eq(last, 0);
	set_one_block(30000);
	cr_expect_eq(open_indexed(), -EBADMSG);
}

/* A stored block without bytes (RFC 1951, 3.2.4). */
Test(elf_packed, empty_blocks_must_not_be_endless)
{
	static const uint8_t empty[] = {0, 0, 0, 0xff, 0xff}, last[] = {1, 1, 0, 0xfe, 0xff, 'x'};
	uint8_t *stream = file + sizeof(Elf64_Chdr);

	stream[0] = 0x78;
	stream[1] = 0x01;
	for (size_t count = 1000; count <= 600000; count *= 600) {
		for (size_t i = 0; i < count; i++)
			memcpy(stream + 2 + i * sizeof(empty), empty, sizeof(empty));
		memcpy(stream + 2 + count * sizeof(empty), last, sizeof(last));
		set_section(1, 2 + count * sizeof(empty) + sizeof(last));
		cr_expect_eq(open_indexed(), count == 1000 ? 0 : -EBADMSG);
	}
}

/* The owner of the file may write to it at any time. */
Test(elf_packed, the_file_may_change)
{
	static uint8_t bytes[1000];
	unsigned int errors = 0;

	compress_plain(6, 0);
	cr_assert_eq(open_indexed(), 0);
	for (size_t i = 1000; i < section.size; i += 1 + (size_t)rand() % 200)
		file[i] = (uint8_t)rand();
	for (int i = 0; i < READS; i++)
		errors +=
		    read_part((size_t)rand() % (PLAIN_BYTES - 1000), bytes, sizeof(bytes)) < 0;
	cr_expect_gt(errors, 0);
	cr_expect_leq(elf_packed_bytes(packed), BYTES_MOST);
}
