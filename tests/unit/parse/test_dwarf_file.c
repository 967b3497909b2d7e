/* SPDX-License-Identifier: Apache-2.0 */
/* Which compressed sections of debug information are kept in memory, and reads of the others. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "parse/dwarf_file.h"

enum {
	COMPRESS_ZSTD = 2,
	ROOM = 1 << 20,
	INFO_BYTES = 300000,
	STR_BYTES = 200000,
	ABBREV_BYTES = 10000,
	CODE = 0x1000,
};

static uint8_t bytes[ROOM], plain[INFO_BYTES];
static struct elf_buffer buffer = {bytes, 0};
static struct elf_section sections[3];
static struct elf_image image = {.segment_count = 1, .sections = sections};
static struct dwarf_file file;

static void setup(void)
{
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (uint8_t)(i % 5 ? i / 300 : i * i / 25);
	image.segments[0] =
	    (struct elf_segment){.vaddr = CODE, .memory_size = CODE, .executable = true};
	image.source = elf_source_from_buffer(&buffer);
}

static void teardown(void)
{
	dwarf_file_close(&file);
}

TestSuite(dwarf_file, .init = setup, .fini = teardown);

/* Appends a section with the first `length` bytes. The header says `type` and `size`. */
static void add_section(const char *name, size_t length, uint32_t type, uint64_t size)
{
	const Elf64_Chdr header = {.ch_type = type, .ch_size = size};
	uLongf room = ROOM - buffer.length - sizeof(header);

	memcpy(bytes + buffer.length, &header, sizeof(header));
	cr_assert_eq(compress(bytes + buffer.length + sizeof(header), &room, plain, length), Z_OK);
	sections[image.section_count++] = (struct elf_section){.name = name,
							       .type = SHT_PROGBITS,
							       .flags = SHF_COMPRESSED,
							       .offset = buffer.length,
							       .size = sizeof(header) + room};
	buffer.length += sizeof(header) + room;
	image.source = elf_source_from_buffer(&buffer);
}

static void add_zlib(const char *name, size_t length)
{
	add_section(name, length, ELFCOMPRESS_ZLIB, length);
}

static void check_read(struct dwarf_reader *reader, enum dwarf_section_kind kind, size_t size)
{
	static const size_t offsets[] = {0, 9000, 150000, 190000, 299990};
	uint8_t part[10];

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		const bool is_inside = offsets[i] + sizeof(part) <= size;

		cr_expect_eq(dwarf_read(reader, kind, offsets[i], part, sizeof(part)), is_inside);
		if (is_inside)
			cr_expect_eq(memcmp(part, plain + offsets[i], sizeof(part)), 0);
	}
}

/* Opens the file with this cap, and reads all sections. Returns the memory for them. */
static size_t read_with_cap(size_t cap)
{
	struct dwarf_reader reader = {&file, &image.source, NULL, UINT64_MAX};

	cr_assert_eq(dwarf_file_open(&file, &image, cap), 0);
	cr_assert(dwarf_file_index(&reader));
	cr_assert(dwarf_file_index_info(&reader, UINT64_MAX));
	check_read(&reader, DWARF_INFO, INFO_BYTES);
	check_read(&reader, DWARF_STR, STR_BYTES);
	check_read(&reader, DWARF_ABBREV, ABBREV_BYTES);
	cr_expect_leq(file.reserved, cap);
	return dwarf_file_bytes(&file);
}

Test(dwarf_file, the_largest_compressed_sections_are_not_kept)
{
	add_zlib(".debug_info", INFO_BYTES);
	add_zlib(".debug_abbrev", ABBREV_BYTES);
	add_zlib(".debug_str", STR_BYTES);

	cr_expect_eq(read_with_cap(ROOM), INFO_BYTES + ABBREV_BYTES + STR_BYTES);
	cr_expect_null(file.sections[DWARF_INFO].packed);
	dwarf_file_close(&file);

	read_with_cap(INFO_BYTES);
	cr_expect_not_null(file.sections[DWARF_INFO].packed);
	cr_expect_null(file.sections[DWARF_STR].packed);
	dwarf_file_close(&file);

	read_with_cap(ABBREV_BYTES + INFO_BYTES / 2);
	cr_expect_not_null(file.sections[DWARF_INFO].packed);
	cr_expect_not_null(file.sections[DWARF_STR].packed);
	cr_expect_null(file.sections[DWARF_ABBREV].packed);
}

/* Only zlib has points at which decompressing can begin. */
Test(dwarf_file, others_than_zlib_must_fit)
{
	add_zlib(".debug_info", INFO_BYTES);
	add_section(".debug_abbrev", ABBREV_BYTES, COMPRESS_ZSTD, ABBREV_BYTES);
	cr_expect_eq(dwarf_file_open(&file, &image, ABBREV_BYTES - 1), -EFBIG);
	cr_expect_eq(dwarf_file_open(&file, &image, ROOM), -EBADMSG, "it is none");
}

Test(dwarf_file, empty_sections_count_as_missing)
{
	add_section(".debug_abbrev", ABBREV_BYTES, COMPRESS_ZSTD, ABBREV_BYTES);
	add_section(".debug_info", INFO_BYTES, ELFCOMPRESS_ZLIB, 0);
	cr_expect_eq(dwarf_file_open(&file, &image, ABBREV_BYTES - 1), -EFBIG);
	sections[0].type = SHT_NOBITS;
	cr_expect_eq(dwarf_file_open(&file, &image, ROOM), -ENOENT);
}

Test(dwarf_file, info_is_indexed_as_far_as_it_is_read)
{
	uint8_t part[10];
	struct dwarf_reader reader = {&file, &image.source, NULL, UINT64_MAX};

	add_zlib(".debug_info", INFO_BYTES);
	add_zlib(".debug_abbrev", ABBREV_BYTES);
	cr_assert_eq(dwarf_file_open(&file, &image, ABBREV_BYTES + INFO_BYTES / 2), 0);
	cr_assert(dwarf_file_index(&reader));
	cr_expect_eq(reader.left, UINT64_MAX);
	cr_assert(dwarf_file_index_info(&reader, 1000));
	cr_expect_lt(reader.left, UINT64_MAX);
	cr_assert(dwarf_read(&reader, DWARF_INFO, 990, part, sizeof(part)));
	cr_expect_eq(memcmp(part, plain + 990, sizeof(part)), 0);
	cr_expect_eq(file.unpaid, 0);
	reader.left = 1;
	cr_assert(!dwarf_file_index_info(&reader, UINT64_MAX));
	reader.left = UINT64_MAX;
	cr_assert(dwarf_file_index_info(&reader, UINT64_MAX));
	check_read(&reader, DWARF_INFO, INFO_BYTES);
}

Test(dwarf_file, what_reads_cost_is_subtracted_once)
{
	uint8_t byte;
	struct dwarf_reader reader = {&file, &image.source, NULL, UINT64_MAX};

	add_zlib(".debug_info", INFO_BYTES);
	add_zlib(".debug_abbrev", ABBREV_BYTES);
	cr_assert_eq(dwarf_file_open(&file, &image, ABBREV_BYTES + INFO_BYTES / 2), 0);
	cr_assert(dwarf_file_index_info(&reader, UINT64_MAX));
	reader.left = DWARF_READ_COST + 1;
	cr_assert(dwarf_read(&reader, DWARF_INFO, 0, &byte, 1));
	cr_expect_gt(file.unpaid, 0);
	cr_expect_eq(dwarf_left(&reader), 0);
	cr_expect_eq(file.unpaid, 0);
	reader.left = 1000000;
	cr_expect_eq(dwarf_left(&reader), 1000000);
}
