/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "parse/function_ranges.h"
#include "tests/support/elf_header.h"

/*
 * A file with three functions, all in one segment that is loaded at BASE. Addresses of code are
 * BASE + CODE + an offset:
 *
 *	first   0x000 to 0x180
 *	gap     0x180 to 0x200
 *	second  0x200 to 0x240
 *	third   0x240 to 0x300
 */
#define BASE 0x400000ull
#define CODE 0x1000

enum {
	FUNCTIONS = 3,
	INSTRUCTION_BYTES = 200, /* of the second FDE: more than a lookup reads */
};

static const struct {
	uint32_t start, bytes;
} functions[FUNCTIONS] = {{0, 0x180}, {0x200, 0x40}, {0x240, 0xc0}};

/* DWARF's length and id fields precede each entry. */
struct cie {
	uint32_t length, id;
	uint8_t version;
	char augmentation[3];
	uint8_t code_align, data_align, return_register, augmentation_bytes, encoding;
	uint8_t padding[3];
} __attribute__((packed));

struct fde {
	uint32_t length, cie;
	int32_t start;
	uint32_t bytes;
	uint8_t augmentation_bytes;
	uint8_t padding[INSTRUCTION_BYTES - 1];
} __attribute__((packed));

struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Shdr sections[3]; /* null, .eh_frame, .shstrtab */
	char names[32];
	struct {
		uint8_t version, frames_encoding, count_encoding, table_encoding;
		int32_t frames;
		uint32_t count;
		int32_t pairs[FUNCTIONS][2];
	} table;
	struct cie cie;
	struct fde fdes[FUNCTIONS];
	uint32_t terminator;
};

#define VADDR(member) (BASE + offsetof(struct file, member))

static void write_frames(struct file *f)
{
	/* Code alignment 1, data alignment -8, return address in register 16; FDEs' addresses are
	 * 32-bit and relative to their own position (0x1b). */
	f->cie = (struct cie){.length = sizeof(f->cie) - 4,
			      .version = 1,
			      .augmentation = "zR",
			      .code_align = 1,
			      .data_align = 0x78,
			      .return_register = 16,
			      .augmentation_bytes = 1,
			      .encoding = 0x1b};
	for (unsigned int i = 0; i < FUNCTIONS; i++) {
		const uint64_t at = VADDR(fdes) + i * sizeof(f->fdes[0]);

		f->fdes[i] = (struct fde){
		    .length = sizeof(f->fdes[0]) - 4,
		    .cie = (uint32_t)(at + 4 - VADDR(cie)),
		    .start = (int32_t)(BASE + CODE + functions[i].start -
				       (at + offsetof(struct fde, start))),
		    .bytes = functions[i].bytes,
		};
		f->table.pairs[i][0] = (int32_t)(BASE + CODE + functions[i].start - VADDR(table));
		f->table.pairs[i][1] = (int32_t)(at - VADDR(table));
	}
}

static void file_make(struct file *f)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";

	*f = (struct file){
	    .header = ELF_HEADER(.e_type = ET_EXEC, .e_machine = EM_X86_64,
				 .e_phoff = offsetof(struct file, segments),
				 .e_shoff = offsetof(struct file, sections), .e_phnum = 2,
				 .e_shnum = 3, .e_shstrndx = 2),
	    .segments = {{.p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_vaddr = BASE,
			  .p_filesz = sizeof(*f),
			  .p_memsz = 0x10000},
			 {.p_type = PT_GNU_EH_FRAME,
			  .p_offset = offsetof(struct file, table),
			  .p_vaddr = VADDR(table),
			  .p_filesz = sizeof(f->table),
			  .p_memsz = sizeof(f->table)}},
	    .sections = {{0},
			 {.sh_name = 1,
			  .sh_type = SHT_PROGBITS,
			  .sh_flags = SHF_ALLOC,
			  .sh_addr = VADDR(cie),
			  .sh_offset = offsetof(struct file, cie),
			  .sh_size = sizeof(*f) - offsetof(struct file, cie)},
			 {.sh_name = 11,
			  .sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct file, names),
			  .sh_size = sizeof(f->names)}},
	    .table = {.version = 1,
		      .frames_encoding = 0x1b,
		      .count_encoding = 0x03,
		      .table_encoding = 0x3b,
		      .frames =
			  (int32_t)(offsetof(struct file, cie) - offsetof(struct file, table) - 4),
		      .count = FUNCTIONS},
	};
	memcpy(f->names, names, sizeof(names));
	write_frames(f);
}

/* A file and the ranges that were found in it. */
struct opened {
	struct elf_buffer buffer;
	struct elf_source source;
	struct function_ranges ranges;
};

static void open_file(struct opened *opened, const struct file *file, size_t cap_bytes)
{
	struct elf_image image;

	opened->buffer = (struct elf_buffer){file, sizeof(*file)};
	opened->source = elf_source_from_buffer(&opened->buffer);
	cr_assert_eq(elf_image_init(&image, &opened->source), 0);
	cr_assert_eq(function_ranges_init(&opened->ranges, &image, cap_bytes), 0);
	elf_image_fini(&image);
}

/* Returns the start of the function that covers the offset in the code, as an offset, or -1 if
 * there is none. */
static int64_t start_of(const struct opened *opened, uint64_t offset)
{
	struct function_range range = {1, 2};

	if (!function_ranges_find(&opened->ranges, &opened->source, BASE + CODE + offset, &range)) {
		cr_assert_eq(range.start, 1, "untouched");
		cr_assert_eq(range.end, 2, "untouched");
		return -1;
	}
	cr_assert_leq(range.start, BASE + CODE + offset);
	cr_assert_gt(range.end, BASE + CODE + offset);
	return (int64_t)(range.start - BASE - CODE);
}

static void check_functions(const struct opened *opened)
{
	cr_expect_eq(start_of(opened, (uint64_t)-1), -1, "before the first function");
	cr_expect_eq(start_of(opened, 0), 0);
	cr_expect_eq(start_of(opened, 0x17f), 0);
	cr_expect_eq(start_of(opened, 0x180), -1, "in the gap");
	cr_expect_eq(start_of(opened, 0x1ff), -1, "in the gap");
	cr_expect_eq(start_of(opened, 0x200), 0x200);
	cr_expect_eq(start_of(opened, 0x23f), 0x200);
	cr_expect_eq(start_of(opened, 0x240), 0x240);
	cr_expect_eq(start_of(opened, 0x2ff), 0x240);
	cr_expect_eq(start_of(opened, 0x300), -1, "after the last function");
}

Test(function_ranges, finds_functions_by_the_sorted_table_without_memory)
{
	struct file file;
	struct opened opened;

	file_make(&file);
	open_file(&opened, &file, 1 << 20);
	cr_assert_eq(opened.ranges.table_count, FUNCTIONS);
	cr_assert_eq(function_ranges_bytes(&opened.ranges), 0);
	check_functions(&opened);
	function_ranges_fini(&opened.ranges);
}

Test(function_ranges, needs_no_section_headers)
{
	struct file file;
	struct opened opened;

	file_make(&file);
	file.header.e_shnum = 0;
	file.header.e_shoff = 0;
	open_file(&opened, &file, 1 << 20);
	cr_assert_eq(opened.ranges.table_count, FUNCTIONS);
	check_functions(&opened);
	function_ranges_fini(&opened.ranges);
}

static void check_index(const struct file *file)
{
	struct opened opened;

	open_file(&opened, file, 1 << 20);
	cr_assert_eq(opened.ranges.table_count, 0);
	cr_assert_eq(function_ranges_bytes(&opened.ranges), FUNCTIONS * 8);
	check_functions(&opened);
	function_ranges_fini(&opened.ranges);
}

Test(function_ranges, builds_an_index_if_the_table_is_not_sorted)
{
	struct file file;

	file_make(&file);
	const int32_t first = file.table.pairs[0][0];
	file.table.pairs[0][0] = file.table.pairs[1][0];
	file.table.pairs[1][0] = first;
	check_index(&file);
}

Test(function_ranges, builds_an_index_if_the_header_is_missing_or_broken)
{
	struct file file;

	file_make(&file);
	file.header.e_phnum = 1;
	check_index(&file);
	file_make(&file);
	file.table.version = 2;
	check_index(&file);
	file_make(&file);
	file.table.table_encoding = 0x3a;
	check_index(&file);
	file_make(&file);
	file.table.count = FUNCTIONS + 1;
	check_index(&file);
	file_make(&file);
	file.table.count = 0;
	check_index(&file);
	file_make(&file);
	file.segments[1].p_vaddr = 0x10;
	check_index(&file);
}

Test(function_ranges, index_needs_no_program_of_a_cie_or_fde)
{
	struct file file;

	file_make(&file);
	file.header.e_phnum = 1;
	/* No instruction has this opcode, so a program that begins with it cannot be run. */
	file.cie.padding[0] = 0x3f;
	file.fdes[1].padding[0] = 0x3f;
	check_index(&file);
}

Test(function_ranges, sorts_an_index_of_fdes_in_any_order)
{
	struct file file;

	file_make(&file);
	file.header.e_phnum = 1;
	const int32_t distance = 2 * sizeof(struct fde);
	const struct fde first = file.fdes[0];
	file.fdes[0].start = file.fdes[2].start + distance;
	file.fdes[0].bytes = file.fdes[2].bytes;
	file.fdes[2].start = first.start - distance;
	file.fdes[2].bytes = first.bytes;
	check_index(&file);
}

Test(function_ranges, index_stays_below_its_cap)
{
	struct file file;
	struct opened opened;

	file_make(&file);
	file.header.e_phnum = 1;
	open_file(&opened, &file, 2 * 8 + 7);
	cr_assert_eq(function_ranges_bytes(&opened.ranges), 2 * 8);
	cr_assert_eq(start_of(&opened, 0x200), 0x200);
	cr_assert_eq(start_of(&opened, 0x240), -1);
	function_ranges_fini(&opened.ranges);
	open_file(&opened, &file, 0);
	cr_assert_eq(function_ranges_bytes(&opened.ranges), 0);
	cr_assert_eq(start_of(&opened, 0x200), -1);
	function_ranges_fini(&opened.ranges);
}

Test(function_ranges, finds_nothing_if_an_fde_is_broken)
{
	struct file file;
	struct opened opened;

	file_make(&file);
	file.fdes[1].cie = 3;
	open_file(&opened, &file, 1 << 20);
	cr_expect_eq(start_of(&opened, 0x17f), 0);
	cr_expect_eq(start_of(&opened, 0x210), -1);
	function_ranges_fini(&opened.ranges);
	file_make(&file);
	file.table.pairs[1][1] = INT32_MAX;
	open_file(&opened, &file, 1 << 20);
	cr_expect_eq(start_of(&opened, 0x210), -1);
	function_ranges_fini(&opened.ranges);
	file_make(&file);
	file.table.pairs[1][1] = INT32_MIN;
	open_file(&opened, &file, 1 << 20);
	cr_expect_eq(start_of(&opened, 0x210), -1);
	function_ranges_fini(&opened.ranges);
}

Test(function_ranges, finds_nothing_in_a_file_without_tables)
{
	struct file file;
	struct opened opened;

	file_make(&file);
	file.header.e_phnum = 1;
	file.header.e_shnum = 0;
	file.header.e_shoff = 0;
	open_file(&opened, &file, 1 << 20);
	cr_assert_eq(start_of(&opened, 0x210), -1);
	function_ranges_fini(&opened.ranges);
}

Test(function_ranges, finds_nothing_once_the_file_is_cut_off)
{
	struct file file;
	struct opened opened;

	file_make(&file);
	open_file(&opened, &file, 1 << 20);
	cr_assert_eq(start_of(&opened, 0x210), 0x200);
	for (size_t length = 0; length < offsetof(struct file, fdes); length += 8) {
		opened.buffer.length = length;
		cr_assert_eq(start_of(&opened, 0x210), -1);
	}
	function_ranges_fini(&opened.ranges);
}

/* The field may be the one that decides, but nothing outside of the file is ever read (ASan). */
Test(function_ranges, survives_any_forged_field)
{
	static const uint32_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};

	for (size_t at = offsetof(struct file, table); at < sizeof(struct file); at += 4) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			struct file file;
			struct opened opened;

			file_make(&file);
			memcpy((char *)&file + at, &values[i], 4);
			open_file(&opened, &file, 1 << 20);
			for (uint64_t offset = 0; offset < 0x300; offset += 0x30)
				start_of(&opened, offset);
			function_ranges_fini(&opened.ranges);
		}
	}
}
