/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files that a program names in .gnu_debuglink, with their checksum. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/slices.h"
#include "tests/unit/symbolizer/debug_symbols_fixture.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

/* Changes the program so that it has no build id, and the debug file, of which it has the checksum,
 * so that it has `tail` more bytes. */
static int open_linked(uint8_t change, size_t tail, int *debug_fd)
{
	struct elf_copy file = elf_copy_load(LINKED), debug = elf_copy_load(DEBUG_FILE);
	const Elf64_Shdr section = elf_copy_section(&file, ".gnu_debuglink");
	const size_t size = debug.size;

	debug.bytes = realloc(debug.bytes, size + tail);
	cr_assert_not_null(debug.bytes);
	memset(debug.bytes + size, 0x5a, tail);
	debug.size += tail;
	note_of(&file)[8] = 0; /* its type */
	const uint32_t crc = (uint32_t)crc32_z(0, debug.bytes, debug.size) ^ change;
	memcpy(file.bytes + section.sh_offset + section.sh_size - sizeof(crc), &crc, sizeof(crc));
	*debug_fd = elf_copy_make_fd(&debug, debug.size);
	const int fd = elf_copy_make_fd(&file, file.size);
	elf_copy_free(&file);
	elf_copy_free(&debug);
	return fd;
}

Test(debug_symbols, a_file_has_the_link_of_its_section)
{
	struct program program = open_program(LINKED, CAP), without = open_program(STRIPPED, CAP);
	_cleanup_close_ int fd = open_file(DEBUG_FILE);

	cr_expect_str_eq(symbols_debug_link(program.symbols), "fixture_debug.debug");
	cr_expect_str_eq(symbols_debug_link(without.symbols), "");
	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	cr_expect_str_eq(symbols_debug_link(program.symbols), "", "it has one");
	close_program(&program);
	close_program(&without);
}

Test(debug_symbols, a_file_without_a_build_id_has_a_checksum)
{
	struct program whole = open_program(WHOLE, CAP), program = open_program(LINKED, CAP);

	symbols_free(program.symbols);
	for (unsigned int i = 0; i < 2; i++) {
		int debug_fd;
		_cleanup_close_ int fd = open_linked(i == 0, 0, &debug_fd);

		program.symbols = index_fd(fd);
		cr_expect_str_eq(symbols_debug_link(program.symbols), "fixture_debug.debug");
		cr_expect_eq(symbols_add_debug(program.symbols, debug_fd), i ? 0 : -ENOENT);
		if (i)
			expect_same(&program, &whole);
		else
			cr_expect_not(symbols_have_namer(program.symbols));
		symbols_free(program.symbols);
		close(debug_fd);
	}
	program.symbols = NULL;
	close_program(&program);
	close_program(&whole);
}

struct added {
	struct symbols *symbols;
	int fd, result;
};

static void add_debug(void *context)
{
	struct added *added = context;

	added->result = symbols_add_debug(added->symbols, added->fd);
}

/* A checksum of a large file must not make others wait. */
Test(debug_symbols, a_checksum_is_computed_in_slices)
{
	static const size_t tail = 30 << 20;
	struct slices slices = {0};
	struct added added;
	_cleanup_close_ int fd = open_linked(0, tail, &added.fd);
	unsigned int count = 1;

	added.symbols = index_fd(fd);
	while (slices_work(&slices, add_debug, &added, 0))
		count++;
	cr_expect_geq(count, tail / (64 << 10));
	cr_expect_eq(added.result, 0);
	cr_expect(symbols_have_namer(added.symbols));
	symbols_free(added.symbols);
	close(added.fd);
}

Test(debug_symbols, a_file_that_is_too_large_is_not_checked)
{
	int debug_fd;
	_cleanup_close_ int fd = open_linked(0, 0, &debug_fd);
	struct symbols *symbols = index_fd(fd);

	cr_assert_eq(ftruncate(debug_fd, 2ll << 30), 0);
	cr_expect_eq(symbols_add_debug(symbols, debug_fd), -ENOENT);
	cr_expect_not(symbols_have_namer(symbols));
	symbols_free(symbols);
	close(debug_fd);
}

/* The build id decides, if there is one. */
Test(debug_symbols, a_file_with_a_build_id_needs_no_checksum)
{
	struct program program = open_program(LINKED, CAP);
	struct elf_copy debug = elf_copy_load(DEBUG_FILE);

	debug.bytes = realloc(debug.bytes, debug.size + 1);
	cr_assert_not_null(debug.bytes);
	debug.bytes[debug.size++] = 1;
	_cleanup_close_ int fd = elf_copy_make_fd(&debug, debug.size);
	cr_expect_eq(symbols_add_debug(program.symbols, fd), 0);
	close_program(&program);
	program = open_program(LINKED, CAP);
	note_of(&debug)[NOTE_HEADER_BYTES] ^= 1;
	_cleanup_close_ int other = elf_copy_make_fd(&debug, debug.size - 1);
	cr_expect_eq(symbols_add_debug(program.symbols, other), -ENOENT);
	close_program(&program);
	elf_copy_free(&debug);
}
