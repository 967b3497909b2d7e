/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a stripped program whose names are in .gnu_debugdata
 * (tests/support/add_debug_data.sh), compared with those of the program with .symtab. Damaged ones
 * are changed copies in memory. */
#include <errno.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/unit/symbolizer/debug_symbols_fixture.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

#define EXPORTED "count_words"
#define STATIC "outer::(anonymous namespace)::hidden"

/* Opens the program with other bytes in .gnu_debugdata, which are not more. */
static struct program open_with(const void *bytes, size_t length)
{
	struct elf_copy file = elf_copy_load(PACKED);
	Elf64_Shdr section = elf_copy_section(&file, ".gnu_debugdata");
	struct program program = open_program(PACKED, CAP);

	cr_assert_leq(length, section.sh_size);
	memcpy(file.bytes + section.sh_offset, bytes, length);
	section.sh_size = length;
	elf_copy_set_section(&file, ".gnu_debugdata", &section);
	close_program(&program);
	program.fd = elf_copy_make_fd(&file, file.size);
	program.result = symbols_new(program.fd, CAP, &program.symbols);
	cr_assert_eq(program.result, 0);
	elf_copy_free(&file);
	return program;
}

static void expect_as_stripped(struct program *program)
{
	struct program stripped = open_program(STRIPPED, CAP);

	expect_same(program, &stripped);
	close_program(&stripped);
	close_program(program);
}

Test(packed_symbols, a_program_with_them_is_as_with_symtab)
{
	struct program program = open_program(PACKED, CAP),
		       expected = open_program(WITH_SYMTAB, CAP);
	struct program stripped = open_program(STRIPPED, CAP);

	expect_symbol(&program, offset_of(STATIC), STATIC);
	expect_symbol(&program, offset_of(EXPORTED), EXPORTED);
	expect_same(&program, &expected);
	cr_expect_gt(symbols_bytes(program.symbols), symbols_bytes(expected.symbols),
		     "their names are in memory");
	cr_expect_lt(symbols_bytes(stripped.symbols), symbols_bytes(expected.symbols));
	close_program(&program);
	close_program(&expected);
	close_program(&stripped);
}

/* A debug file has more. */
Test(packed_symbols, a_debug_file_takes_their_place)
{
	struct program program = open_program(PACKED, CAP), whole = open_program(WHOLE, CAP);
	_cleanup_close_ int fd = open_file(DEBUG_FILE);
	const uint8_t *id;

	cr_expect_eq(symbols_want_debug(program.symbols, &id), ID_BYTES);
	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	expect_same(&program, &whole);
	close_program(&program);
	close_program(&whole);
}

/* What does not fit into the cap is left out, and the exported functions keep their names. */
Test(packed_symbols, within_the_cap)
{
	struct program program = open_program(PACKED, CAP), stripped = open_program(STRIPPED, CAP);
	const size_t least = symbols_bytes(stripped.symbols), most = symbols_bytes(program.symbols);
	unsigned int with = 0, without = 0;

	close_program(&program);
	for (size_t cap = least; cap < most + 4096; cap += 64) {
		program = open_program(PACKED, cap);
		if (program.result ==
		    -EFBIG) { /* not even these fit before duplicates are left out */
			close_program(&program);
			continue;
		}
		cr_assert_eq(program.result, 0);
		cr_expect_leq(symbols_bytes(program.symbols), cap);
		expect_symbol(&program, offset_of(EXPORTED), EXPORTED);
		struct symbol symbol;
		if (symbols_find(program.symbols, offset_of(STATIC), &symbol))
			with++;
		else
			without++;
		close_program(&program);
	}
	cr_expect_gt(without, 0);
	cr_expect_gt(with, 0);
	close_program(&stripped);
}

/* --- damaged ones --- */

Test(packed_symbols, that_are_cut_off_are_none)
{
	struct elf_copy file = elf_copy_load(PACKED);
	const Elf64_Shdr section = elf_copy_section(&file, ".gnu_debugdata");

	for (size_t length = 0; length < section.sh_size; length += section.sh_size / 16 + 1) {
		struct program program = open_with(file.bytes + section.sh_offset, length);

		expect_as_stripped(&program);
	}
	elf_copy_free(&file);
}

Test(packed_symbols, that_are_damaged_are_none)
{
	struct elf_copy file = elf_copy_load(PACKED);
	const Elf64_Shdr section = elf_copy_section(&file, ".gnu_debugdata");
	uint8_t *bytes = file.bytes + section.sh_offset;

	for (size_t at = 0; at < section.sh_size; at += section.sh_size / 16 + 1) {
		bytes[at] ^= 0x40;
		struct program program = open_with(bytes, section.sh_size);
		bytes[at] ^= 0x40;

		expect_as_stripped(&program);
	}
	elf_copy_free(&file);
}

/* Gives the program something else, compressed. */
static struct program open_with_packed(const void *bytes, size_t length)
{
	uint8_t packed[8192];
	size_t used = 0;

	cr_assert_eq(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, bytes, length, packed,
					     &used, sizeof(packed)),
		     LZMA_OK);
	return open_with(packed, used);
}

Test(packed_symbols, of_something_else_are_none)
{
	struct elf_copy file = elf_copy_load(PACKED);
	uint8_t *plain = calloc(1, 100000);
	struct program program = open_with_packed(plain, 100000);

	expect_as_stripped(&program);
	/* The headers of a file, without the rest of it. */
	program = open_with_packed(file.bytes, sizeof(Elf64_Ehdr));
	expect_as_stripped(&program);
	free(plain);
	elf_copy_free(&file);
}
