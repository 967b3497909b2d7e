/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of a stripped program and its debug file, compared with those of the program before it
 * was stripped: fixture_inlined.cpp, split by objcopy (see CMakeLists.txt). Debug files that do not
 * fit, or are damaged, are changed copies in memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/unit/symbolizer/debug_symbols_fixture.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

#define EXPORTED "count_words"
#define STATIC "outer::(anonymous namespace)::hidden"

/* --- a debug file --- */

Test(debug_symbols, without_one_there_are_names_of_dynsym_only)
{
	struct program program = open_program(STRIPPED, CAP);
	struct named_frames frames;

	expect_symbol(&program, offset_of(EXPORTED), EXPORTED);
	expect_symbol(&program, offset_of(STATIC), NULL);
	cr_expect_eq(find_frames(program.symbols, offset_of(EXPORTED), &frames), -ENOENT);
	close_program(&program);
}

Test(debug_symbols, with_it_the_program_is_as_before_it_was_stripped)
{
	struct program whole = open_program(WHOLE, CAP), program = open_program(STRIPPED, CAP);
	const size_t before = symbols_bytes(program.symbols);
	_cleanup_close_ int fd = open_file(DEBUG_FILE);
	struct named_frames frames;
	unsigned int lines = 0, inlined = 0;

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	cr_expect_gt(symbols_bytes(program.symbols), before);
	cr_expect(symbols_have_namer(program.symbols));
	expect_same(&program, &whole);
	expect_symbol(&program, offset_of(STATIC), STATIC);
	expect_symbol(&program, offset_of(EXPORTED), EXPORTED);
	for (uint64_t at = program.start; at < program.end; at += STEP) {
		if (find_frames(program.symbols, at, &frames) < 0)
			continue;
		inlined += frames.count > 1;
		lines += frames.frames[frames.count - 1].line > 0 &&
			 strcmp(frames.frames[frames.count - 1].file, SOURCE) == 0;
	}
	cr_expect_gt(lines, 50, "%u", lines);
	cr_expect_gt(inlined, 50, "%u", inlined);
	close_program(&whole);
	close_program(&program);
}

/* libdw of Debian 12 does not read it, so it is compared with the program. */
Test(debug_symbols, it_may_be_compressed_by_zstd)
{
	struct program whole = open_program(WHOLE, CAP), program = open_program(STRIPPED, CAP);
	struct elf_copy file = elf_copy_load(ZSTD_FILE);
	_cleanup_close_ int fd = open_file(ZSTD_FILE);

	cr_assert(elf_copy_section(&file, ".debug_info").sh_flags & SHF_COMPRESSED);
	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	expect_same(&program, &whole);
	close_program(&whole);
	close_program(&program);
	elf_copy_free(&file);
}

Test(debug_symbols, symbols_are_found_after_the_first_lookups_too)
{
	struct program whole = open_program(WHOLE, CAP), program = open_program(STRIPPED, CAP);
	_cleanup_close_ int fd = open_file(DEBUG_FILE);
	char text[TEXT_BYTES];

	for (uint64_t at = program.start; at < program.end; at += STEP)
		describe(program.symbols, at, text);
	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	expect_same(&program, &whole);
	close_program(&whole);
	close_program(&program);
}

Test(debug_symbols, its_namer_can_be_dropped_and_added_again)
{
	struct program program = open_program(STRIPPED, CAP), whole = open_program(WHOLE, CAP);
	_cleanup_close_ int debug = open_file(DEBUG_FILE);
	struct symbol symbol;

	cr_expect_eq(symbols_drop_debug(program.symbols), 0, "there is none");
	cr_expect_eq(symbols_drop_debug(whole.symbols), 0, "it is not that of a debug file");
	cr_assert_eq(symbols_add_debug(program.symbols, debug), 0);
	expect_same(&program, &whole);
	const size_t before = symbols_bytes(program.symbols);
	const size_t freed = symbols_drop_debug(program.symbols);
	cr_expect_gt(freed, 0);
	cr_expect_eq(symbols_bytes(program.symbols), before - freed);
	cr_expect_not(symbols_have_namer(program.symbols));
	unsigned int named = 0;
	for (uint64_t at = program.start; at < program.end; at += STEP)
		named += symbols_find(program.symbols, at, &symbol);
	cr_expect_gt(named, 0, "the functions of its .symtab stay");
	cr_assert_eq(symbols_add_debug(program.symbols, debug), 0);
	expect_same(&program, &whole);
	close_program(&program);
	close_program(&whole);
}

/* The first file stays the one that is read. */
Test(debug_symbols, adding_it_twice_is_harmless)
{
	struct program whole = open_program(WHOLE, CAP), program = open_program(STRIPPED, CAP);
	struct elf_copy file = elf_copy_load(DEBUG_FILE);
	_cleanup_close_ int fd = open_file(DEBUG_FILE), other = elf_copy_make_fd(&file, file.size);

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	const size_t bytes = symbols_bytes(program.symbols);
	cr_expect_eq(symbols_add_debug(program.symbols, fd), 0);
	cr_expect_eq(symbols_add_debug(program.symbols, other), 0);
	cr_expect_eq(symbols_bytes(program.symbols), bytes);
	cr_assert_eq(ftruncate(other, 0), 0);
	expect_same(&program, &whole);
	close_program(&whole);
	close_program(&program);
	elf_copy_free(&file);
}

/* --- which files want one --- */

Test(debug_symbols, files_without_debug_information_want_one)
{
	static const struct {
		const char *path;
		size_t expected;
	} cases[] = {{WHOLE, 0}, {STRIPPED, ID_BYTES}, {WITH_SYMTAB, ID_BYTES}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct program program = open_program(cases[i].path, CAP);
		char hex[2 * ID_BYTES + 1] = "";
		const uint8_t *id;

		cr_expect_eq(symbols_want_debug(program.symbols, &id), cases[i].expected, "%s",
			     cases[i].path);
		for (size_t at = 0; at < cases[i].expected; at++)
			snprintf(hex + 2 * at, 3, "%02x", id[at]);
		if (cases[i].expected)
			cr_expect_str_eq(hex, symbols_get_ids(program.symbols)->gnu_build_id);
		close_program(&program);
	}
}

Test(debug_symbols, a_file_without_a_build_id_wants_none)
{
	struct elf_copy file = elf_copy_load(STRIPPED);
	const uint8_t *id;

	note_of(&file)[8] = 0; /* its type */
	_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size), debug = open_file(DEBUG_FILE);
	struct symbols *symbols = index_fd(fd);

	cr_expect_eq(symbols_want_debug(symbols, &id), 0);
	cr_expect_eq(symbols_add_debug(symbols, debug), -ENOENT);
	symbols_free(symbols);
	elf_copy_free(&file);
}

Test(debug_symbols, two_files_without_a_build_id_do_not_belong_together)
{
	struct elf_copy file = elf_copy_load(STRIPPED), debug = elf_copy_load(DEBUG_FILE);

	/* A note of another kind. */
	note_of(&file)[8] = note_of(&debug)[8] = 0;
	const int fd = elf_copy_make_fd(&file, file.size);
	const int debug_fd = elf_copy_make_fd(&debug, debug.size);
	struct symbols *symbols = index_fd(fd);
	cr_expect_eq(symbols_add_debug(symbols, debug_fd), -ENOENT);
	symbols_free(symbols);
	close(debug_fd);
	close(fd);
	elf_copy_free(&debug);
	elf_copy_free(&file);
}

Test(debug_symbols, a_program_that_has_one_wants_no_other)
{
	struct program program = open_program(STRIPPED, CAP);
	_cleanup_close_ int fd = open_file(DEBUG_FILE);
	const uint8_t *id;

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	cr_expect_eq(symbols_want_debug(program.symbols, &id), 0);
	close_program(&program);
}

/* --- files that have only a part of it --- */

/* Names of a debug file whose .strtab says something else. */
static int open_renamed(void)
{
	struct elf_copy file = elf_copy_load(DEBUG_FILE);
	const Elf64_Shdr strings = elf_copy_section(&file, ".strtab");
	char *at =
	    memmem(file.bytes + strings.sh_offset, strings.sh_size, EXPORTED, sizeof(EXPORTED));

	cr_assert_not_null(at);
	memcpy(at, "other_words", sizeof(EXPORTED));
	const int fd = elf_copy_make_fd(&file, file.size);
	elf_copy_free(&file);
	return fd;
}

Test(debug_symbols, a_program_with_symtab_gets_the_namer_only)
{
	struct program whole = open_program(WHOLE, CAP), program = open_program(WITH_SYMTAB, CAP),
		       stripped = open_program(STRIPPED, CAP);
	_cleanup_close_ int fd = open_renamed();

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	cr_assert_eq(symbols_add_debug(stripped.symbols, fd), 0);
	expect_symbol(&program, offset_of(EXPORTED), EXPORTED);
	expect_symbol(&stripped, offset_of(EXPORTED), "other_words");
	expect_same(&program, &whole);
	close_program(&whole);
	close_program(&program);
	close_program(&stripped);
}

Test(debug_symbols, a_debug_file_without_functions_leaves_those_of_dynsym)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct program program = open_program(STRIPPED, CAP);
		struct elf_copy file = elf_copy_load(DEBUG_FILE);
		Elf64_Shdr section = elf_copy_section(&file, ".symtab");
		struct named_frames frames;

		if (i == 0)
			section.sh_type = SHT_NULL;
		else
			section.sh_size = sizeof(Elf64_Sym); /* the first one is never a function */
		elf_copy_set_section(&file, ".symtab", &section);
		_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size);
		cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
		expect_symbol(&program, offset_of(EXPORTED), EXPORTED);
		expect_symbol(&program, offset_of(STATIC), NULL);
		cr_assert_eq(find_frames(program.symbols, offset_of(STATIC), &frames), 0);
		cr_expect_str_eq(frames.frames[frames.count - 1].file, SOURCE);
		close_program(&program);
		elf_copy_free(&file);
	}
}

Test(debug_symbols, one_without_debug_information_gives_the_functions)
{
	struct program program = open_program(STRIPPED, CAP),
		       expected = open_program(WITH_SYMTAB, CAP);
	_cleanup_close_ int fd = open_file(SYMTAB_FILE);

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	cr_expect_not(symbols_have_namer(program.symbols));
	expect_same(&program, &expected);
	close_program(&program);
	close_program(&expected);
}

/* --- files that do not fit --- */

Test(debug_symbols, the_debug_file_of_another_program_changes_nothing)
{
	struct program program = open_program(STRIPPED, CAP);
	const size_t bytes = symbols_bytes(program.symbols);

	for (unsigned int i = 0; i <= ID_BYTES + 1; i++) {
		struct elf_copy file = elf_copy_load(DEBUG_FILE);
		uint8_t *note = note_of(&file);

		if (i < ID_BYTES)
			note[NOTE_HEADER_BYTES + i] ^= 0x80;
		else if (i == ID_BYTES)
			note[4] = 16; /* a shorter one: the first 16 bytes are the same */
		else
			note[8] = 0; /* no build id */
		_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size);
		cr_expect_eq(symbols_add_debug(program.symbols, fd), -ENOENT, "%u", i);
		cr_expect_eq(symbols_bytes(program.symbols), bytes);
		elf_copy_free(&file);
	}
	expect_unchanged(&program);
	close_program(&program);
}

/* Anybody can give a program the build id of another one, and it loses no names because of that. */
Test(debug_symbols, that_of_other_code_with_the_same_build_id_changes_nothing)
{
	static const char *const sections[] = {".text", ".init", ".fini"};
	struct program program = open_program(STRIPPED, CAP);

	for (unsigned int i = 0; i < 3 * 3; i++) {
		struct elf_copy file = elf_copy_load(DEBUG_FILE);
		Elf64_Shdr section = elf_copy_section(&file, sections[i / 3]);

		if (i % 3 == 0)
			section.sh_addr += 16;
		else if (i % 3 == 1)
			section.sh_size += 1;
		else
			section.sh_flags &= ~(uint64_t)SHF_EXECINSTR;
		elf_copy_set_section(&file, sections[i / 3], &section);
		_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size);
		cr_expect_eq(symbols_add_debug(program.symbols, fd), -ENOENT, "%u", i);
		elf_copy_free(&file);
	}
	expect_unchanged(&program);
	close_program(&program);
}

Test(debug_symbols, a_file_that_is_no_elf_file_changes_nothing)
{
	struct program program = open_program(STRIPPED, CAP);
	struct elf_copy file = elf_copy_load(DEBUG_FILE);

	for (size_t size = 0; size < sizeof(Elf64_Ehdr); size++) {
		_cleanup_close_ int fd = elf_copy_make_fd(&file, size);

		cr_expect_eq(symbols_add_debug(program.symbols, fd), -ENOEXEC, "%zu", size);
	}
	file.bytes[EI_CLASS] = ELFCLASS32;
	_cleanup_close_ int small = elf_copy_make_fd(&file, file.size), text = open_file(SOURCE);
	cr_expect_eq(symbols_add_debug(program.symbols, small), -ENOEXEC);
	cr_expect_eq(symbols_add_debug(program.symbols, text), -ENOEXEC);
	cr_expect_eq(symbols_add_debug(program.symbols, -1), -EIO);
	expect_unchanged(&program);
	close_program(&program);
	elf_copy_free(&file);
}

/* Returns whether the program has this symbol at an offset. */
static bool has_symbol(const struct program *program, uint64_t offset, const struct symbol *symbol)
{
	struct symbol found;

	return symbols_find(program->symbols, offset, &found) &&
	       found.start_vaddr == symbol->start_vaddr && !strcmp(found.name, symbol->name);
}

/* Not all is known, but a function that is found is the one that it was, with or without the debug
 * file. */
static void expect_sound(const struct program *program, const struct program *whole,
			 const struct program *untouched)
{
	struct named_frames frames;
	struct symbol symbol;

	for (uint64_t at = program->start; at < program->end; at += 5 * STEP) {
		if (symbols_find(program->symbols, at, &symbol))
			cr_expect(has_symbol(whole, at, &symbol) ||
				      has_symbol(untouched, at, &symbol),
				  "%#lx: %s", at, symbol.name);
		if (find_frames(program->symbols, at, &frames) < 0)
			continue;
		cr_assert_gt(frames.count, 0);
		cr_assert_leq(frames.count, NAMED_FRAMES_MAX);
		for (unsigned int i = 0; i < frames.count; i++)
			cr_assert(frames.frames[i].function && frames.frames[i].file);
	}
}

Test(debug_symbols, a_debug_file_may_be_cut_off_anywhere, .timeout = 120)
{
	struct elf_copy file = elf_copy_load(DEBUG_FILE), copy = elf_copy_with_headers_first(&file);
	struct program whole = open_program(WHOLE, CAP), untouched = open_program(STRIPPED, CAP);
	unsigned int used = 0, useless = 0;

	for (unsigned int i = 0; i <= CUTS; i++) {
		struct program program = open_program(STRIPPED, CAP);
		_cleanup_close_ int fd = elf_copy_make_fd(&copy, copy.size * i / CUTS);
		const int r = symbols_add_debug(program.symbols, fd);

		cr_expect(r == 0 || r == -ENOENT || r == -ENOEXEC, "%u: %d", i, r);
		used += r == 0;
		useless += r != 0;
		if (r < 0)
			cr_expect_eq(symbols_bytes(program.symbols),
				     symbols_bytes(untouched.symbols));
		expect_sound(&program, &whole, &untouched);
		if (i == CUTS)
			expect_same(&program, &whole);
		close_program(&program);
	}
	cr_expect_gt(used, CUTS / 2);
	cr_expect_gt(useless, 0);
	close_program(&whole);
	close_program(&untouched);
	elf_copy_free(&file);
	elf_copy_free(&copy);
}

Test(debug_symbols, a_debug_file_may_be_cut_off_later, .timeout = 120)
{
	struct program program = open_program(STRIPPED, CAP), whole = open_program(WHOLE, CAP),
		       untouched = open_program(STRIPPED, CAP);
	struct elf_copy file = elf_copy_load(DEBUG_FILE);
	_cleanup_close_ int fd = elf_copy_make_fd(&file, file.size);

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	for (unsigned int i = CUTS; i-- > 0;) {
		cr_assert_eq(ftruncate(fd, (off_t)(file.size * i / CUTS)), 0);
		expect_sound(&program, &whole, &untouched);
	}
	expect_symbol(&program, offset_of(EXPORTED), NULL);
	close_program(&program);
	close_program(&whole);
	close_program(&untouched);
	elf_copy_free(&file);
}

/* --- memory --- */

/* From a cap that has no room for .dynsym to one that has room for .symtab. */
Test(debug_symbols, an_index_beyond_the_cap_leaves_that_of_the_program)
{
	const uint64_t exported = offset_of(EXPORTED), hidden = offset_of(STATIC);
	_cleanup_close_ int fd = open_file(SYMTAB_FILE);
	unsigned int refused = 0;
	int r = -EFBIG;

	for (size_t cap = 0; r == -EFBIG; cap += STEP) {
		struct program program = open_program(STRIPPED, cap);

		r = program.result;
		if (r == 0) {
			const size_t before = symbols_bytes(program.symbols);

			r = symbols_add_debug(program.symbols, fd);
			expect_symbol(&program, exported, EXPORTED);
			expect_symbol(&program, hidden, r ? NULL : STATIC);
			if (r)
				cr_expect_eq(symbols_bytes(program.symbols), before);
			refused += r != 0;
			cr_expect_leq(symbols_bytes(program.symbols), cap);
		}
		close_program(&program);
	}
	cr_expect_eq(r, 0);
	cr_expect_gt(refused, 10, "%u", refused);
}

Test(debug_symbols, an_index_has_the_size_of_that_of_symtab)
{
	struct program program = open_program(STRIPPED, CAP),
		       expected = open_program(WITH_SYMTAB, CAP);
	_cleanup_close_ int fd = open_file(SYMTAB_FILE);

	cr_assert_eq(symbols_add_debug(program.symbols, fd), 0);
	/* strip removes no section that is loaded. */
	cr_expect_eq(symbols_bytes(program.symbols), symbols_bytes(expected.symbols));
	close_program(&program);
	close_program(&expected);
}
