/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "parse/elf_cache.h"

enum {
	FILE_BYTES = 3 * ELF_CACHE_BLOCK_BYTES + 100,
};

/* A file in memory that counts reads. */
struct counted {
	uint8_t bytes[FILE_BYTES];
	unsigned int reads;
	int error; /* that every read returns; 0: none */
};

static int counted_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct counted *file = context;

	file->reads++;
	if (file->error)
		return file->error;
	if (offset > FILE_BYTES || length > FILE_BYTES - offset)
		return -ENODATA;
	memcpy(buffer, file->bytes + offset, length);
	return 0;
}

static struct elf_source source_of(struct counted *file, uint8_t seed)
{
	for (size_t i = 0; i < FILE_BYTES; i++)
		file->bytes[i] = (uint8_t)(seed + i + i / 256);
	file->reads = 0;
	file->error = 0;
	return (struct elf_source){.read = counted_read, .context = file, .size = FILE_BYTES};
}

static int get(const struct elf_source *source, uint64_t offset, void *bytes, size_t length)
{
	return source->read(source->context, offset, bytes, length);
}

static struct elf_cache cache;
static struct counted first, second;

static void reset(void)
{
	memset(&cache, 0, sizeof(cache));
}

Test(elf_cache, reads_what_the_file_has, .init = reset)
{
	const struct elf_source source = source_of(&first, 1);
	uint64_t file = 0;
	const struct elf_source cached = elf_cache_source(&cache, &source, &file);
	uint8_t bytes[2 * ELF_CACHE_BLOCK_BYTES];

	for (uint64_t offset = 0; offset < FILE_BYTES; offset += 97) {
		for (size_t length = 1; length < 5000 && offset + length <= FILE_BYTES;
		     length += 611) {
			cr_assert_eq(get(&cached, offset, bytes, length), 0);
			cr_assert_arr_eq(bytes, first.bytes + offset, length, "%lu, %zu", offset,
					 length);
		}
	}
	cr_expect_eq(get(&cached, FILE_BYTES - 1, bytes, 1), 0);
	cr_expect_eq(get(&cached, FILE_BYTES - 1, bytes, 2), -ENODATA);
	cr_expect_eq(get(&cached, FILE_BYTES, bytes, 1), -ENODATA);
	cr_expect_eq(get(&cached, UINT64_MAX - 1, bytes, 1), -ENODATA);
	cr_expect_eq(get(&cached, UINT64_MAX, bytes, 8), -ENODATA);
}

Test(elf_cache, reads_each_block_once, .init = reset)
{
	const struct elf_source source = source_of(&first, 1);
	uint64_t file = 0;
	const struct elf_source cached = elf_cache_source(&cache, &source, &file);
	uint8_t bytes[32];

	cr_assert_eq(get(&cached, ELF_CACHE_BLOCK_BYTES - 8, bytes, 16), 0);
	cr_expect_eq(first.reads, 2, "two blocks");
	for (uint64_t offset = 0; offset < 2 * ELF_CACHE_BLOCK_BYTES; offset += 32)
		cr_assert_eq(get(&cached, offset, bytes, 32), 0);
	cr_expect_eq(first.reads, 2);
}

Test(elf_cache, files_are_told_apart, .init = reset)
{
	const struct elf_source a = source_of(&first, 1), b = source_of(&second, 7);
	uint64_t file_a = 0, file_b = 0;
	uint8_t byte;

	for (unsigned int i = 0; i < 3; i++) {
		struct elf_source cached = elf_cache_source(&cache, &a, &file_a);

		cr_assert_eq(get(&cached, 0, &byte, 1), 0);
		cr_expect_eq(byte, first.bytes[0]);
		cached = elf_cache_source(&cache, &b, &file_b);
		cr_assert_eq(get(&cached, 0, &byte, 1), 0);
		cr_expect_eq(byte, second.bytes[0]);
	}
	cr_expect_neq(file_a, file_b);
	cr_expect_eq(first.reads, 1, "they have different places");
	cr_expect_eq(second.reads, 1);
}

Test(elf_cache, what_could_not_be_read_is_not_kept, .init = reset)
{
	const struct elf_source source = source_of(&first, 1);
	uint64_t file = 0;
	const struct elf_source cached = elf_cache_source(&cache, &source, &file);
	uint8_t byte;

	first.error = -EIO;
	cr_expect_eq(get(&cached, 5, &byte, 1), -EIO);
	first.error = 0;
	cr_expect_eq(get(&cached, 5, &byte, 1), 0);
	cr_expect_eq(byte, first.bytes[5]);
}
