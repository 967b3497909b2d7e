/* SPDX-License-Identifier: Apache-2.0 */
/* Sections that are compressed by zstd. Those by zlib are in test_elf_image.c. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "parse/elf_decompress.h"

enum {
	COMPRESS_ZSTD = 2,
	PLAIN_BYTES = 300000,
	ROOM = 2 * PLAIN_BYTES,
	CAP = 1 << 20,
	RATIO_MAX = (128 << 10) / 4,
};

static uint8_t plain[PLAIN_BYTES];
static uint8_t packed[ROOM];
static size_t used;

static void set_header(uint64_t size)
{
	const Elf64_Chdr header = {.ch_type = COMPRESS_ZSTD, .ch_size = size};

	memcpy(packed, &header, sizeof(header));
}

/* Appends a frame with a part of the plain bytes. */
static void add_frame(size_t from, size_t length)
{
	const size_t r = ZSTD_compress(packed + used, ROOM - used, plain + from, length, 3);

	cr_assert_not(ZSTD_isError(r));
	used += r;
}

static void setup(void)
{
	/* Words that repeat, and numbers that do not. */
	for (size_t i = 0; i < PLAIN_BYTES; i++)
		plain[i] = i % 7 ? (uint8_t) "debug_"[i % 6] : (uint8_t)(i * i / 49);
	set_header(PLAIN_BYTES);
	used = sizeof(Elf64_Chdr);
}

TestSuite(elf_decompress, .init = setup);

/* Decompresses the first `length` bytes, and compares what comes. */
static int decompress(size_t length, size_t cap)
{
	/* A copy of its own size, so that reading beyond it is noticed. */
	_cleanup_free_ uint8_t *copy = malloc(length);
	_cleanup_free_ uint8_t *data = NULL;
	size_t size = 0;

	cr_assert_not_null(copy);
	memcpy(copy, packed, length);
	const int r = elf_decompress(copy, length, cap, &data, &size);
	cr_assert_eq(r == 0, data != NULL);
	if (r == 0 && size == PLAIN_BYTES)
		cr_expect_eq(memcmp(data, plain, size), 0);
	return r;
}

Test(elf_decompress, zstd_gives_what_was_compressed)
{
	add_frame(0, PLAIN_BYTES);
	cr_expect_eq(decompress(used, CAP), 0);
	cr_expect_eq(decompress(used, PLAIN_BYTES), 0);
	cr_expect_eq(decompress(used, PLAIN_BYTES - 1), -EFBIG);
}

Test(elf_decompress, zstd_may_have_several_frames)
{
	add_frame(0, 100000);
	add_frame(100000, 0);
	add_frame(100000, PLAIN_BYTES - 100000);
	cr_expect_eq(decompress(used, CAP), 0);
}

Test(elf_decompress, zstd_has_the_length_that_the_header_claims)
{
	add_frame(0, PLAIN_BYTES);
	set_header(PLAIN_BYTES + 1);
	cr_expect_eq(decompress(used, CAP), -EBADMSG);
	set_header(PLAIN_BYTES - 1);
	cr_expect_eq(decompress(used, CAP), -EBADMSG);
	set_header(0);
	cr_expect_eq(decompress(used, CAP), -ENOENT);
	set_header(UINT64_MAX);
	cr_expect_eq(decompress(used, SIZE_MAX), -EBADMSG);
	cr_expect_eq(decompress(used, CAP), -EBADMSG, "nothing is compressed so well");
	set_header(CAP + 1);
	cr_expect_eq(decompress(used, CAP), -EFBIG);
}

/* The memory is not even asked for. */
Test(elf_decompress, zstd_has_a_best_ratio)
{
	const size_t length = 100;
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	set_header((uint64_t)(length + 1) * RATIO_MAX);
	cr_expect_eq(elf_decompress(packed, sizeof(Elf64_Chdr) + length, SIZE_MAX, &data, &size),
		     -EBADMSG);
	memset(plain, 'x', sizeof(plain));
	add_frame(0, PLAIN_BYTES);
	set_header(PLAIN_BYTES);
	cr_expect_eq(decompress(used, CAP), 0, "one that is as good as possible is accepted");
}

Test(elf_decompress, zstd_may_be_cut_off_anywhere)
{
	add_frame(0, PLAIN_BYTES / 2);
	add_frame(PLAIN_BYTES / 2, PLAIN_BYTES / 2);
	for (size_t length = 0; length < used; length += length < 100 ? 1 : 997)
		cr_expect_eq(decompress(length, CAP), -EBADMSG, "%zu", length);
	packed[used++] = 0;
	cr_expect_eq(decompress(used, CAP), -EBADMSG, "something follows");
}

/* Frames that are skipped have any length, and old formats other parsers. */
Test(elf_decompress, zstd_has_no_other_frames)
{
	static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4};
	const size_t start = used;

	memcpy(packed + used, skippable, sizeof(skippable));
	used += sizeof(skippable);
	add_frame(0, PLAIN_BYTES);
	cr_expect_eq(decompress(used, CAP), -EBADMSG);
	for (unsigned int version = 0x22; version < 0x28; version++) {
		used = start;
		add_frame(0, PLAIN_BYTES);
		packed[start] = (uint8_t)version;
		cr_expect_eq(decompress(used, CAP), -EBADMSG, "%#x", version);
	}
}

Test(elf_decompress, zstd_may_be_damaged)
{
	add_frame(0, PLAIN_BYTES);
	for (size_t at = sizeof(Elf64_Chdr); at < used; at += 1 + at / 50) {
		_cleanup_free_ uint8_t *data = NULL;
		size_t size;

		packed[at] ^= 0x55;
		const int r = elf_decompress(packed, used, CAP, &data, &size);
		cr_expect(r == -EBADMSG || (r == 0 && size == PLAIN_BYTES), "%zu: %d", at, r);
		packed[at] ^= 0x55;
	}
	cr_expect_eq(decompress(used, CAP), 0);
}
