/* SPDX-License-Identifier: Apache-2.0 */
/* Alternate files of debug files: with them a stripped program is as before, and others than the
 * right one are not used. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "symbolizer/namer/namer.h"
#include "tests/unit/symbolizer/debug_symbols_fixture.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

static struct program program;
static int debug_fd;

static void setup(void)
{
	program = open_program(STRIPPED, CAP);
	cr_expect_null(symbols_wanted(program.symbols));
	debug_fd = open_file(DWZ_FILE);
	cr_assert_eq(symbols_add_debug(program.symbols, debug_fd), 0);
}

static void teardown(void)
{
	close_program(&program);
	close(debug_fd);
}

TestSuite(debug_alternate, .init = setup, .fini = teardown);

/* Adds a copy of the descriptor, which the index owns after success. */
static int add_wanted(struct symbols *symbols, int fd)
{
	const int copy = fd < 0 ? fd : dup(fd);
	const unsigned int before = symbols_further_files(symbols);
	const int r = symbols_add_wanted(symbols, copy);

	cr_expect_eq(symbols_further_files(symbols), before + (r == 0));
	if (r < 0 && copy >= 0)
		cr_expect_eq(close(copy), 0);
	return r;
}

static unsigned int count_inlined(void)
{
	static struct named_frames frames;
	unsigned int inlined = 0;

	for (uint64_t at = program.start; at < program.end; at += STEP)
		inlined += find_frames(program.symbols, at, &frames) == 0 && frames.count > 1;
	return inlined;
}

Test(debug_alternate, with_it_the_program_is_as_before_it_was_stripped)
{
	struct program whole = open_program(WHOLE, CAP);
	_cleanup_close_ int fd = open_file(ALTERNATE_FILE);
	const struct namer_wanted *wanted = symbols_wanted(program.symbols);

	cr_assert_not_null(wanted);
	cr_expect_str_eq(wanted->alternate.name, "fixture_debug_dwz.alternate");
	cr_expect_eq(wanted->alternate.build_id_length, ID_BYTES);
	cr_expect_eq(count_inlined(), 0, "their names are in the alternate file");
	const size_t before = symbols_bytes(program.symbols);
	cr_assert_eq(add_wanted(program.symbols, fd), 0);
	cr_expect_null(symbols_wanted(program.symbols));
	expect_same(&program, &whole);
	cr_expect_gt(count_inlined(), 50);
	cr_expect_gt(symbols_bytes(program.symbols), before, "it has an index of its own");
	cr_expect_eq(add_wanted(program.symbols, fd), -ENOENT, "it has one");
	close_program(&whole);
}

Test(debug_alternate, is_dropped_with_the_debug_file_and_added_again)
{
	struct program whole = open_program(WHOLE, CAP);
	_cleanup_close_ int fd = open_file(ALTERNATE_FILE);

	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(add_wanted(program.symbols, fd), 0);
		cr_expect_gt(count_inlined(), 50);
		cr_expect_gt(symbols_drop_debug(program.symbols), 0);
		cr_expect_eq(count_inlined(), 0);
		cr_expect_null(symbols_wanted(program.symbols), "without a namer");
		cr_expect_eq(add_wanted(program.symbols, fd), -ENOENT);
		cr_assert_eq(symbols_add_debug(program.symbols, debug_fd), 0);
	}
	cr_assert_eq(add_wanted(program.symbols, fd), 0);
	expect_same(&program, &whole);
	close_program(&whole);
}

/* Returns the lowest number that no open descriptor has. */
static int free_descriptor(void)
{
	const int fd = dup(0);

	close(fd);
	return fd;
}

Test(debug_alternate, is_closed_with_the_symbols)
{
	_cleanup_close_ int fd = open_file(ALTERNATE_FILE);
	const int lowest = free_descriptor();

	for (unsigned int i = 0; i < 2; i++) {
		struct program one = open_program(STRIPPED, CAP);

		cr_assert_eq(symbols_add_debug(one.symbols, debug_fd), 0);
		cr_assert_eq(add_wanted(one.symbols, fd), 0);
		if (i == 0)
			symbols_drop_debug(one.symbols);
		close_program(&one);
		cr_expect_eq(free_descriptor(), lowest, "%u", i);
	}
}

/* --- files that do not fit --- */

Test(debug_alternate, that_of_another_file_is_not_used)
{
	for (unsigned int i = 0; i <= ID_BYTES + 1; i++) {
		struct elf_copy file = elf_copy_load(ALTERNATE_FILE);
		uint8_t *note = note_of(&file);

		if (i < ID_BYTES)
			note[NOTE_HEADER_BYTES + i] ^= 0x80;
		else if (i == ID_BYTES)
			note[4] = 16; /* a shorter one: the first 16 bytes are the same */
		else
			note[8] = 0; /* no build id */
		_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size);
		cr_expect_eq(add_wanted(program.symbols, fd), -ENOENT, "%u", i);
		elf_copy_free(&file);
	}
	cr_expect_eq(count_inlined(), 0);
	cr_expect_not_null(symbols_wanted(program.symbols));
}

Test(debug_alternate, what_is_no_debug_information_is_not_used)
{
	_cleanup_close_ int text = open_file(SOURCE);
	struct elf_copy file = elf_copy_load(ALTERNATE_FILE);
	Elf64_Shdr section = elf_copy_section(&file, ".debug_info");

	cr_expect_eq(add_wanted(program.symbols, text), -ENOEXEC);
	cr_expect_eq(add_wanted(program.symbols, -1), -EIO);
	section.sh_type = SHT_NOBITS;
	elf_copy_set_section(&file, ".debug_info", &section);
	_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size);
	cr_expect_eq(add_wanted(program.symbols, fd), -ENOEXEC);
	elf_copy_free(&file);
	cr_expect_not_null(symbols_wanted(program.symbols));
}

/* The names that can still be read are the right ones. */
Test(debug_alternate, that_is_cut_off_gives_no_wrong_names)
{
	struct elf_copy whole = elf_copy_load(ALTERNATE_FILE);
	struct elf_copy file = elf_copy_with_headers_first(&whole);
	_cleanup_close_ int right = open_file(ALTERNATE_FILE);
	static struct named_frames frames, expected;
	struct program complete = open_program(STRIPPED, CAP);

	cr_assert_eq(symbols_add_debug(complete.symbols, debug_fd), 0);
	cr_assert_eq(add_wanted(complete.symbols, right), 0);
	for (unsigned int i = 0; i < CUTS; i++) {
		const size_t size = file.size * i / CUTS;
		_cleanup_close_ int fd = elf_copy_make_fd(&file, size);

		symbols_drop_debug(program.symbols);
		cr_assert_eq(symbols_add_debug(program.symbols, debug_fd), 0);
		add_wanted(program.symbols, fd);
		for (uint64_t at = program.start; at < program.end; at += CUTS) {
			if (find_frames(program.symbols, at, &frames) < 0)
				continue;
			cr_assert_eq(find_frames(complete.symbols, at, &expected), 0);
			for (unsigned int j = 0; j + 1 < frames.count; j++)
				cr_assert_str_eq(frames.frames[j].function,
						 expected.frames[j].function, "%zu: %#lx", size,
						 at);
		}
	}
	close_program(&complete);
	elf_copy_free(&file);
	elf_copy_free(&whole);
}
