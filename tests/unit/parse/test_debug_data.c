/* SPDX-License-Identifier: Apache-2.0 */
/* The section .gnu_debugdata, in a file that has nothing else. */
#include "parse/debug_data.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

enum {
	PLAIN_BYTES = 300000,
	ROOM = DEBUG_DATA_PACKED_BYTES_MAX + 4096,
	LEVEL = 6,
};

/* The names of sections, with their offsets. */
static const char section_names[] = "\0.shstrtab\0.gnu_debugdata";

static uint8_t *file; /* headers, names and then the packed bytes */
static uint8_t *plain;

static uint8_t *packed_bytes(void)
{
	return file + sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr) + sizeof(section_names);
}

static void setup(void)
{
	file = calloc(1, ROOM + 8192);
	plain = malloc(2 * DEBUG_DATA_BYTES_MAX);
	/* Words that repeat, and numbers that do not. */
	for (size_t i = 0; i < 2 * DEBUG_DATA_BYTES_MAX; i++)
		plain[i] = i % 7 ? (uint8_t) "symbol"[i % 6] : (uint8_t)(i * i / 49);
}

static void teardown(void)
{
	free(file);
	free(plain);
}

TestSuite(debug_data, .init = setup, .fini = teardown);

static size_t pack(uint32_t level, size_t length)
{
	size_t used = 0;

	cr_assert_eq(lzma_easy_buffer_encode(level, LZMA_CHECK_CRC64, NULL, plain, length,
					     packed_bytes(), &used, ROOM),
		     LZMA_OK);
	return used;
}

/* Reads the section with this many packed bytes, in memory of the size of the file. */
static int read_packed(size_t length, uint8_t **data, size_t *data_length)
{
	const size_t names = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr),
		     size = names + sizeof(section_names) + length;
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_shoff = sizeof(header),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = 3,
			     .e_shstrndx = 1};
	const Elf64_Shdr sections[3] = {
	    {0},
	    {.sh_name = 1,
	     .sh_type = SHT_STRTAB,
	     .sh_offset = names,
	     .sh_size = sizeof(section_names)},
	    {.sh_name = 11,
	     .sh_type = SHT_PROGBITS,
	     .sh_offset = names + sizeof(section_names),
	     .sh_size = length},
	};
	_cleanup_free_ uint8_t *copy = malloc(size);
	struct elf_image image;

	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), sections, sizeof(sections));
	memcpy(file + names, section_names, sizeof(section_names));
	memcpy(copy, file, size);
	struct elf_buffer buffer = {copy, size};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	cr_assert_eq(elf_image_init(&image, &source), 0);
	const int r = debug_data_read(&image, data, data_length);
	elf_image_fini(&image);
	return r;
}

static void expect_error(size_t length, int error)
{
	uint8_t *data = NULL;
	size_t data_length = 0;
	const int r = read_packed(length, &data, &data_length);

	cr_expect_eq(r, error, "%zu: %d", length, r);
	cr_expect_null(data);
	cr_expect_eq(data_length, 0);
	free(data);
}

static void expect_plain(size_t length, size_t expected)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t data_length = 0;

	cr_assert_eq(read_packed(length, &data, &data_length), 0, "%zu", expected);
	cr_assert_eq(data_length, expected);
	cr_expect_eq(memcmp(data, plain, expected), 0);
}

Test(debug_data, is_decompressed)
{
	static const size_t lengths[] = {1, 65535, 65536, 65537, PLAIN_BYTES};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		expect_plain(pack(LEVEL, lengths[i]), lengths[i]);
}

Test(debug_data, that_is_cut_off_or_damaged_is_refused)
{
	const size_t length = pack(LEVEL, 5000);

	for (size_t i = 1; i < length; i++)
		expect_error(i, -EBADMSG);
	for (size_t i = 0; i < length; i++) {
		uint8_t *data = NULL;
		size_t data_length;

		packed_bytes()[i] ^= 0x10;
		cr_expect_lt(read_packed(length, &data, &data_length), 0, "%zu", i);
		packed_bytes()[i] ^= 0x10;
	}
	expect_plain(length, 5000);
}

Test(debug_data, that_is_not_there_is_none)
{
	expect_error(0, -ENOENT);
	expect_error(pack(LEVEL, 0), -ENOENT);
	memset(packed_bytes(), 0, 64);
	expect_error(64, -EBADMSG);
}

/* A few bytes may stand for gigabytes. */
Test(debug_data, has_a_cap)
{
	memset(plain, 'x', 2 * DEBUG_DATA_BYTES_MAX);
	expect_plain(pack(LEVEL, DEBUG_DATA_BYTES_MAX), DEBUG_DATA_BYTES_MAX);
	const size_t length = pack(LEVEL, DEBUG_DATA_BYTES_MAX + 1);
	cr_expect_lt(length, 10000);
	expect_error(length, -EFBIG);
	expect_error(pack(LEVEL, 2 * DEBUG_DATA_BYTES_MAX), -EFBIG);
	expect_error(DEBUG_DATA_PACKED_BYTES_MAX + 1, -EFBIG);
}

/* The file chooses how much memory decompressing it needs, up to 4 GiB. */
Test(debug_data, needs_no_more_memory_than_the_limit)
{
	expect_plain(pack(7, PLAIN_BYTES), PLAIN_BYTES);
	expect_error(pack(8, PLAIN_BYTES), -EFBIG);
	expect_error(pack(9, PLAIN_BYTES), -EFBIG);
}
