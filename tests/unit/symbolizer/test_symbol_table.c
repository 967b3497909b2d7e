/* SPDX-License-Identifier: Apache-2.0 */
/* The index of functions of files that the test makes: duplicates, limits, damaged and forged
 * files. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/elf_header.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

/* An executable file with one segment and up to 23 symbols. */
struct made {
	Elf64_Ehdr header;
	Elf64_Phdr load;
	Elf64_Shdr sections[5]; /* null, .text, .symtab, .strtab, .shstrtab */
	char section_names[40];
	char strings[256];
	Elf64_Sym table[24];
	uint8_t code[0x1000];
};

#define BASE 0x400000ull
#define CODE(offset) (BASE + offsetof(struct made, code) + (offset))

static void made_init(struct made *made)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";

	*made = (struct made){
	    .header = ELF_HEADER(.e_type = ET_EXEC, .e_machine = EM_AARCH64,
				 .e_phoff = offsetof(struct made, load), .e_phnum = 1,
				 .e_shoff = offsetof(struct made, sections), .e_shnum = 5,
				 .e_shstrndx = 4),
	    .load = {.p_type = PT_LOAD,
		     .p_flags = PF_R | PF_X,
		     .p_vaddr = BASE,
		     .p_filesz = sizeof(*made),
		     .p_memsz = sizeof(*made),
		     .p_align = 0x1000},
	    .sections = {{0},
			 {.sh_name = 1,
			  .sh_type = SHT_PROGBITS,
			  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			  .sh_addr = CODE(0),
			  .sh_offset = offsetof(struct made, code),
			  .sh_size = 0x1000},
			 {.sh_name = 7,
			  .sh_type = SHT_SYMTAB,
			  .sh_offset = offsetof(struct made, table),
			  .sh_size = sizeof(made->table),
			  .sh_link = 3,
			  .sh_entsize = 24},
			 {.sh_name = 15,
			  .sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct made, strings),
			  .sh_size = sizeof(made->strings)},
			 {.sh_name = 23,
			  .sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct made, section_names),
			  .sh_size = sizeof(made->section_names)}},
	};
	memcpy(made->section_names, names, sizeof(names));
}

/* Fills in the next free symbol, which the caller may change. */
static Elf64_Sym *made_add(struct made *made, const char *name, unsigned int bind,
			   unsigned int type, uint64_t offset, uint64_t size)
{
	size_t at = 1;
	unsigned int i = 1;

	while (made->strings[at])
		at += strlen(made->strings + at) + 1;
	while (made->table[i].st_name)
		i++;
	cr_assert_lt(i, 24);
	cr_assert_lt(at + strlen(name) + 1, sizeof(made->strings));
	memcpy(made->strings + at, name, strlen(name) + 1);
	made->table[i] = (Elf64_Sym){.st_name = (uint32_t)at,
				     .st_shndx = 1,
				     .st_info = (uint8_t)ELF64_ST_INFO(bind, type),
				     .st_value = CODE(offset),
				     .st_size = size};
	return &made->table[i];
}

static int made_fd(const void *made, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, made, size), (ssize_t)size);
	return fd;
}

static void check_code(const struct symbols *symbols, uint64_t offset, const char *expected)
{
	struct symbol found = {.name = "untouched"};
	bool ok = symbols_find(symbols, offsetof(struct made, code) + offset, &found);

	cr_assert_eq(ok, expected != NULL, "%#llx: %s", (unsigned long long)offset, found.name);
	cr_assert_str_eq(found.name, expected ? expected : "untouched");
}

Test(symbol_table, the_best_symbol_of_an_address_is_found)
{
	struct made made;
	struct symbols *symbols;

	made_init(&made);
	made_add(&made, "$x", STB_LOCAL, STT_NOTYPE, 0x100, 0);
	made_add(&made, "local", STB_LOCAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "weak", STB_WEAK, STT_FUNC, 0x100, 0x40);
	made_add(&made, "__global", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "global", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "globally", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "g", STB_GLOBAL, STT_FUNC, 0x100, 0);
	made_add(&made, "$d", STB_LOCAL, STT_NOTYPE, 0x120, 0);
	made_add(&made, "loop", STB_LOCAL, STT_NOTYPE, 0x130, 0);
	made_add(&made, "inner", STB_LOCAL, STT_FUNC, 0x220, 0x10);
	made_add(&made, "outer", STB_LOCAL, STT_FUNC, 0x200, 0x100);
	made_add(&made, "object", STB_GLOBAL, STT_OBJECT, 0x210, 0x10);
	made_add(&made, "assembly", STB_GLOBAL, STT_NOTYPE, 0x400, 0);
	made_add(&made, "undefined", STB_GLOBAL, STT_FUNC, 0x500, 0)->st_shndx = SHN_UNDEF;
	made_add(&made, "tls", STB_GLOBAL, STT_TLS, 0x500, 0x10);
	made_add(&made, "outside", STB_GLOBAL, STT_FUNC, 0x1000, 0x10);
	made_add(&made, "absolute", STB_GLOBAL, STT_NOTYPE, 0x600, 0)->st_shndx = SHN_ABS;
	made_add(&made, "huge", STB_GLOBAL, STT_FUNC, 0x800, UINT64_MAX);
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	symbols = index_fd(fd);
	check_code(symbols, 0, NULL);
	check_code(symbols, 0xff, NULL);
	check_code(symbols, 0x100, "global");
	check_code(symbols, 0x13f, "global");
	check_code(symbols, 0x140, NULL);
	check_code(symbols, 0x210, "outer");
	check_code(symbols, 0x220, "inner");
	check_code(symbols, 0x230, "outer");
	check_code(symbols, 0x2ff, "outer");
	check_code(symbols, 0x300, NULL);
	check_code(symbols, 0x400, "assembly");
	check_code(symbols, 0x7ff, "assembly");
	check_code(symbols, 0xfff, "huge");
	check_code(symbols, 0x1000, NULL);
	check_code(symbols, UINT64_MAX - offsetof(struct made, code), NULL);
	symbols_free(symbols);
}

Test(symbol_table, the_last_label_of_a_section_covers_256_bytes)
{
	struct made made;
	struct symbols *symbols;

	made_init(&made);
	made_add(&made, "first", STB_GLOBAL, STT_FUNC, 0x100, 0);
	made_add(&made, "last", STB_GLOBAL, STT_FUNC, 0x800, 0);
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	symbols = index_fd(fd);
	check_code(symbols, 0x7ff, "first");
	check_code(symbols, 0x8ff, "last");
	check_code(symbols, 0x900, NULL);
	symbols_free(symbols);
}

Test(symbol_table, an_index_beyond_the_cap_is_refused)
{
	_cleanup_close_ int fd = open_file(FIXTURE);
	struct symbols *symbols = index_fd(fd), *other = NULL;
	size_t bytes = symbols_bytes(symbols);

	symbols_free(symbols);
	cr_assert_eq(symbols_new(fd, 0, &other), -EFBIG);
	cr_assert_eq(symbols_new(fd, bytes - 12, &other), -EFBIG);
	cr_assert_null(other);
	cr_assert_eq(symbols_new(-1, CAP, &other), -EIO);
	cr_assert_null(other);
	symbols_free(NULL);
}

/* The header claims a table of 16 EiB. The file is sparse, with 64 GiB. */
Test(symbol_table, an_oversized_table_is_refused_without_reading_it, .timeout = 30)
{
	struct symbols *symbols = NULL;
	struct made made;

	made_init(&made);
	made_add(&made, "f", STB_GLOBAL, STT_FUNC, 0, 0x10);
	made.sections[2].sh_size = UINT64_MAX / 24 * 24;
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	cr_assert_eq(ftruncate(fd, 64ll << 30), 0);
	cr_assert_eq(symbols_new(fd, CAP, &symbols), -EFBIG);
}

Test(symbol_table, a_file_that_is_not_elf_has_an_empty_index)
{
	_cleanup_close_ int empty = made_fd("", 0), text = made_fd("#!/bin/sh\n", 10);
	struct symbols *symbols = index_fd(empty);
	struct symbol found;
	uint64_t vaddr;

	cr_assert_not(symbols_find(symbols, 0, &found));
	cr_assert_not(symbols_offset_to_vaddr(symbols, 0, &vaddr));
	symbols_free(symbols);
	symbols = index_fd(text);
	cr_assert_not(symbols_find(symbols, 0, &found));
	symbols_free(symbols);
}

Test(symbol_table, a_file_truncated_after_indexing_gives_no_names)
{
	struct made made;
	struct symbols *symbols;
	uint64_t vaddr;

	made_init(&made);
	made_add(&made, "f", STB_GLOBAL, STT_FUNC, 0, 0x10);
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	symbols = index_fd(fd);
	check_code(symbols, 4, "f");
	cr_assert_eq(ftruncate(fd, offsetof(struct made, strings) + 2), 0);
	check_code(symbols, 4, NULL);
	cr_assert(symbols_offset_to_vaddr(symbols, offsetof(struct made, code), &vaddr));
	cr_assert_eq(vaddr, CODE(0));
	symbols_free(symbols);
}

static void look_everywhere(const struct symbols *symbols, size_t size)
{
	struct symbol found;

	for (size_t at = 0; at < size + 100; at += size / 300 + 1)
		symbols_find(symbols, at, &found);
}

Test(symbol_table, forged_fields_do_no_harm)
{
	static const uint64_t values[] = {0,
					  1,
					  2,
					  23,
					  25,
					  0x7f,
					  0xff00,
					  0xffffffff,
					  1ull << 40,
					  INT64_MAX,
					  (uint64_t)INT64_MIN,
					  UINT64_MAX};
	struct made made;

	made_init(&made);
	made_add(&made, "f", STB_GLOBAL, STT_FUNC, 0, 0x10);
	made_add(&made, "g", STB_GLOBAL, STT_NOTYPE, 0x20, 0);
	/* Overwrite each aligned group of 2, 4 and 8 bytes in the headers and in the symbols. */
	for (size_t at = 16; at < offsetof(struct made, code); at += 2) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			for (size_t width = 2; width <= 8; width *= 2) {
				struct made forged = made;
				struct symbols *symbols = NULL;

				if (at % width || (at > offsetof(struct made, table) + 72 && i > 1))
					continue;
				memcpy((char *)&forged + at, &values[i], width);
				_cleanup_close_ int fd = made_fd(&forged, sizeof(forged));
				int r = symbols_new(fd, CAP, &symbols);
				cr_assert(r == 0 || r == -EFBIG || r == -EIO, "%d", r);
				if (r == 0)
					look_everywhere(symbols, 64);
				symbols_free(symbols);
			}
		}
	}
}

Test(symbol_table, files_truncated_anywhere_do_no_harm)
{
	_cleanup_close_ int file = open_file(FIXTURE);
	struct stat stat;

	fstat(file, &stat);
	_cleanup_free_ char *bytes = malloc((size_t)stat.st_size);
	cr_assert_eq(pread(file, bytes, (size_t)stat.st_size, 0), stat.st_size);
	for (off_t length = 0; length < stat.st_size; length += stat.st_size / 200 + 1) {
		_cleanup_close_ int fd = made_fd(bytes, (size_t)length);
		struct symbols *symbols = index_fd(fd);

		look_everywhere(symbols, (size_t)stat.st_size);
		symbols_free(symbols);
	}
}
