/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

#include "tests/support/cfi_paint.h"
#include "tests/support/elf_header.h"
#include "unwinder-mgr/uncovered_code.h"
#include "unwinder-mgr/limits.h"

/* A file with one executable section of functions that are all alike, 16 bytes each. */
enum {
	TEXT = 0x1000,
	SHIFT = 0x400000, /* virtual address - file offset */
	HEADERS = 0x200,
	NAMES = 0x400,
	SYMBOLS = 0x600,
	FUNCTION_BYTES = 16,
};

struct file {
	uint8_t *data;
	size_t length;
	struct elf_buffer buffer;
	struct elf_image image;
};

/* push %rbx; call *%rax; pop %rbx; ret */
static const uint8_t function[] = {0x53, 0xff, 0xd0, 0x5b, 0xc3};

/* `symbol`: the offset in the text of a function that the file has a symbol for; 0: it has no symbols. */
static void file_new(struct file *file, size_t text_bytes, const char *more_section, size_t symbol)
{
	const Elf64_Sym symbols[] = {{0},
				     {.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				      .st_shndx = 1,
				      .st_value = TEXT + SHIFT + symbol,
				      .st_size = FUNCTION_BYTES}};
	static const char names[] = "\0.text\0.shstrtab\0.gopclntab";
	const Elf64_Ehdr header =
	    ELF_HEADER(.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_phoff = sizeof(header),
		       .e_shoff = HEADERS, .e_phnum = 1,
		       .e_shnum = symbol ? 5 : more_section ? 4 : 3,
		       .e_shstrndx = 2);
	const Elf64_Phdr segment = {.p_type = PT_LOAD,
				    .p_flags = PF_R | PF_X,
				    .p_offset = TEXT,
				    .p_vaddr = TEXT + SHIFT,
				    .p_filesz = text_bytes,
				    .p_memsz = text_bytes};
	const Elf64_Shdr sections[] = {{0},
				       {.sh_name = 1,
					.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					.sh_addr = TEXT + SHIFT,
					.sh_offset = TEXT,
					.sh_size = text_bytes},
				       {.sh_name = 7, .sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = sizeof(names)},
				       {.sh_name = more_section ? 17 : 0, .sh_type = SHT_PROGBITS},
				       {.sh_type = SHT_SYMTAB,
					.sh_link = 2,
					.sh_info = 1,
					.sh_offset = SYMBOLS,
					.sh_size = sizeof(symbols),
					.sh_entsize = sizeof(symbols[0])}};

	file->length = TEXT + text_bytes;
	file->data = calloc(1, file->length);
	memcpy(file->data, &header, sizeof(header));
	memcpy(file->data + sizeof(header), &segment, sizeof(segment));
	memcpy(file->data + HEADERS, sections, sizeof(sections));
	memcpy(file->data + NAMES, names, sizeof(names));
	memcpy(file->data + SYMBOLS, symbols, sizeof(symbols));
	memset(file->data + TEXT, 0x90, text_bytes);
	for (size_t i = 0; i + FUNCTION_BYTES <= text_bytes; i += FUNCTION_BYTES)
		memcpy(file->data + TEXT + i, function, sizeof(function));
	file->buffer = (struct elf_buffer){file->data, file->length};
	const struct elf_source source = elf_source_from_buffer(&file->buffer);
	cr_assert_eq(elf_image_init(&file->image, &source), 0);
}

static void file_free(struct file *file)
{
	elf_image_fini(&file->image);
	free(file->data);
}

static struct cfi_paint read_uncovered(const struct file *file, const struct unwind_ranges *ranges, size_t text_bytes)
{
	struct cfi_paint told;

	cr_assert_eq(cfi_paint_init(&told, TEXT + SHIFT, text_bytes), 0);
	const struct cfi_sink sink = cfi_paint_sink(&told);
	cr_assert_eq(uncovered_code_read(&file->image, ranges, &sink), 0);
	cr_assert_eq(told.outside, 0);
	return told;
}

/* Returns the CFA offset at an offset of the text, or 0 if there is no rule. */
static int cfa_at(const struct cfi_paint *told, size_t offset)
{
	const struct cfi_rule *rule = cfi_paint_rule(told, TEXT + SHIFT + offset);

	return rule ? rule->cfa_offset : 0;
}

/* Checks that each function in [from, to) of the text has its rows. */
static void check_functions(const struct cfi_paint *told, size_t from, size_t to)
{
	for (size_t i = from; i < to; i += FUNCTION_BYTES) {
		cr_assert_eq(cfa_at(told, i), 8, "at %zu", i);
		cr_assert_eq(cfa_at(told, i + 1), 16, "at %zu", i);
		cr_assert_eq(cfa_at(told, i + 3), 16, "at %zu", i);
		cr_assert_eq(cfa_at(told, i + 4), 8, "at %zu", i);
	}
}

Test(uncovered_code, all_functions_of_a_file_without_tables_are_described)
{
	struct unwind_ranges ranges = {0};
	struct file file;

	file_new(&file, 1600, NULL, 0);
	struct cfi_paint told = read_uncovered(&file, &ranges, 1600);
	check_functions(&told, 0, 1600);
	cfi_paint_fini(&told);
	file_free(&file);
}

Test(uncovered_code, code_that_a_range_covers_is_left_alone)
{
	struct unwind_range items[] = {{.start = TEXT + 160, .end = TEXT + 320}, {.start = TEXT + 328, .end = TEXT + 400}};
	const struct unwind_ranges ranges = {.items = items, .count = 2};
	struct file file;

	file_new(&file, 800, NULL, 0);
	struct cfi_paint told = read_uncovered(&file, &ranges, 800);
	check_functions(&told, 0, 160);
	for (size_t i = 160; i < 400; i++)
		cr_assert_eq(cfa_at(&told, i), 0, "at %zu", i);
	check_functions(&told, 400, 800);
	cfi_paint_fini(&told);
	file_free(&file);
}

Test(uncovered_code, code_larger_than_a_region_is_described_completely)
{
	const size_t bytes = 2 * LIMIT_CODE_REGION_BYTES + 320;
	struct unwind_ranges ranges = {0};
	struct file file;

	file_new(&file, bytes, NULL, 0);
	struct cfi_paint told = read_uncovered(&file, &ranges, bytes);
	check_functions(&told, 0, bytes);
	cfi_paint_fini(&told);
	file_free(&file);
}

/* The first function is not aligned, so that the first region would end after two bytes of a function. */
Test(uncovered_code, regions_do_not_divide_functions)
{
	const size_t bytes = 2 * LIMIT_CODE_REGION_BYTES;
	struct unwind_range items[] = {{.start = TEXT, .end = TEXT + 2}};
	const struct unwind_ranges ranges = {.items = items, .count = 1};
	struct file file;

	file_new(&file, bytes, NULL, LIMIT_CODE_REGION_BYTES);
	memset(file.data + TEXT, 0x90, FUNCTION_BYTES);
	memcpy(file.data + TEXT + 2, function, sizeof(function));
	struct cfi_paint told = read_uncovered(&file, &ranges, bytes);
	check_functions(&told, FUNCTION_BYTES, bytes);
	cfi_paint_fini(&told);
	file_free(&file);
}

Test(uncovered_code, more_code_than_the_limit_is_not_analysed)
{
	const size_t bytes = LIMIT_CODE_BYTES + FUNCTION_BYTES;
	struct unwind_ranges ranges = {0};
	struct file file;

	file_new(&file, bytes, NULL, 0);
	struct cfi_paint told = read_uncovered(&file, &ranges, bytes);
	cr_expect_eq(told.fdes, 0);
	cfi_paint_fini(&told);
	file_free(&file);
}

Test(uncovered_code, go_programs_are_left_alone)
{
	struct unwind_ranges ranges = {0};
	struct file file;

	file_new(&file, 1600, ".gopclntab", 0);
	struct cfi_paint told = read_uncovered(&file, &ranges, 1600);
	cr_expect_eq(told.fdes, 0);
	cfi_paint_fini(&told);
	file_free(&file);
}

/* The sections claim to lie outside of the file or of the address space. */
Test(uncovered_code, forged_sections_are_ignored)
{
	static const struct {
		uint64_t offset, size, vaddr;
	} forged[] = {{UINT64_MAX - 800, 1600, TEXT + SHIFT},
		      {TEXT, UINT64_MAX - TEXT, TEXT + SHIFT},
		      {TEXT, 1ull << 63, TEXT + SHIFT},
		      {TEXT, 1601, TEXT + SHIFT},
		      {TEXT, 1600, UINT64_MAX - 800}};
	struct unwind_ranges ranges = {0};

	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		struct file file;

		file_new(&file, 1600, NULL, 0);
		for (unsigned int j = 0; j < file.image.section_count; j++) {
			struct elf_section *section = &file.image.sections[j];

			if (!(section->flags & SHF_EXECINSTR))
				continue;
			section->offset = forged[i].offset;
			section->size = forged[i].size;
			section->vaddr = forged[i].vaddr;
		}
		struct cfi_paint told = read_uncovered(&file, &ranges, 1600);
		cr_expect_eq(told.fdes, 0, "%zu", i);
		cfi_paint_fini(&told);
		file_free(&file);
	}
}
