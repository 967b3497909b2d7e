/* SPDX-License-Identifier: Apache-2.0 */
/* A small program of Go that the tests of go_module.h, go_functions.h and go_rows.h read and
 * change. */
#ifndef TESTS_GO_FIXTURE_H
#define TESTS_GO_FIXTURE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/go_module.h"

/*
 * The file is mapped at GO_BASE. Its code would be at GO_TEXT, but is not in the file:
 *
 *	index  address  name				what is special
 *	0      0x00	main.run			has inlined calls; see GO_CALL_ADD
 *	1      0x80	main.leaf[go.shape.int]		has no frame
 *	2      0xa0	runtime.goexit			is outermost
 *	3      0xb0	runtime.mcall			abandons its stack
 *	4      0xc0	runtime.systemstack		switches its stack
 *	5      0xd0	runtime.sigreturn__sigaction	is where a signal handler returns to
 *	6      0xe0	main.assembly			is short, and in assembly
 *	       0x100	the end
 */
#define GO_BASE 0x400000ull
#define GO_TEXT 0x410000ull
#define GO_VADDR(member) (GO_BASE + offsetof(struct go_file, member))

enum {
	GO_FUNCTIONS = 7,
	GO_TEXT_BYTES = 0x100,
	/* main.run calls main.add in line 20, which calls main.get in line 7. Both are inlined,
	 * main.get at 0x30 to 0x3f. The last byte of the line list is at 0x61; padding follows. */
	GO_GET_AT = 0x35,
	GO_ADD_AT = 0x25,
	GO_PADDING_AT = 0x70,
	GO_MODULE_WORDS = 64,
};

enum go_format {
	GO_1_18,
	GO_1_20,
	GO_1_27, /* inlined calls are in the table of functions, and moduledata has other words */
	GO_PIE,	 /* as GNU ld links Go 1.20: no .gopclntab, and addresses only in relocations */
};

enum go_section {
	GO_SECTION_NULL,
	GO_SECTION_TABLE,
	GO_SECTION_MODULE,
	GO_SECTION_RELOCATIONS,
	GO_SECTION_BUILDINFO,
	GO_SECTION_NAMES,
	GO_SECTIONS,
};

/* The words of moduledata that are not 0. */
enum {
	GO_WORD_TABLE = 0,
	GO_WORD_NAMES = 1,
	GO_WORD_VALUES = 10,
	GO_WORD_TEXT = 22,
	GO_WORD_INLINED_1_18 = 38,
	GO_WORD_INLINED_1_20 = 40,
	GO_WORD_INLINED_1_27 = 43,
	GO_WORD_TABLE_END_1_27 = 44,
};

struct go_file {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr sections[GO_SECTIONS];
	char section_names[80];
	uint64_t buildinfo[2];
	uint64_t before_table[2]; /* in .data.rel.ro */
	struct {
		uint32_t magic;
		uint16_t padding;
		uint8_t quantum, pointer_bytes;
		uint64_t function_count, file_count, text;
		uint64_t names_at, units_at, files_at, values_at, functions_at;
	} table;
	char names[176];
	uint32_t units[4];
	char files[32];
	uint8_t values[256];
	/* Pairs {start, where the description is}, the end of the code, and the descriptions. */
	uint32_t functions[176];
	uint32_t inlined[10];
	uint64_t module_before[2]; /* in the section of moduledata */
	uint64_t module[GO_MODULE_WORDS];
	Elf64_Rela relocations[8];
};

struct go_fixture {
	struct go_file file;
	enum go_format format;
	uint32_t names_used, values_used, functions_used; /* functions_used: of uint32_t */
	uint32_t descriptions[GO_FUNCTIONS];		  /* indexes in file.functions */
};

/* A value of a list, and up to which address it holds, relative to the function. */
struct go_pair {
	int32_t value;
	uint32_t end;
};

/* Where a description has its lists, in words. */
enum go_list {
	GO_LIST_SIZES = 4,
	GO_LIST_FILES = 5,
	GO_LIST_LINES = 6,
};

void go_fixture_init(struct go_fixture *fixture, enum go_format format);

/* Appends a list of `count` pairs, and the end of the list. Returns its offset in the values. */
uint32_t go_fixture_put_list(struct go_fixture *fixture, const struct go_pair *pairs, size_t count);

/* Appends bytes to the values. Returns their offset. */
uint32_t go_fixture_put_bytes(struct go_fixture *fixture, const void *bytes, size_t length);

/* Lets a function refer to a list. */
void go_fixture_set_list(struct go_fixture *fixture, unsigned int function, enum go_list which,
			 uint32_t list);

/* What was found in a file, and the file. */
struct go_opened {
	struct elf_buffer buffer;
	struct elf_source source;
	struct go_module module;
};

/* Finds the tables of a file. Returns what go_module_find() returns. */
int go_open(struct go_opened *opened, const struct go_file *file);

#endif
