/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbolizer/debug_symbols_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/symbolizer/symbols_fixture.h"

uint8_t *note_of(const struct elf_copy *file)
{
	return file->bytes + elf_copy_section(file, ".note.gnu.build-id").sh_offset;
}

/* --- what symbols say --- */

int find_frames(struct symbols *symbols, uint64_t offset, struct named_frames *frames)
{
	int r = -EAGAIN;

	for (unsigned int i = 0; r == -EAGAIN && i < PARTS_MAX; i++)
		r = symbols_find_frames(symbols, NULL, offset, frames);
	cr_assert_neq(r, -EAGAIN, "it must end");
	return r;
}

void describe(struct symbols *symbols, uint64_t offset, char text[TEXT_BYTES])
{
	static struct named_frames frames;
	FILE *out = fmemopen(text, TEXT_BYTES, "w");
	struct symbol symbol;
	uint64_t start = 0;

	cr_assert_not_null(out);
	if (symbols_find(symbols, offset, &symbol))
		fprintf(out, "%s %#lx+%lu", symbol.name, symbol.start_vaddr, symbol.size);
	fprintf(out, "\n");
	if (find_frames(symbols, offset, &frames) == 0) {
		for (unsigned int i = 0; i < frames.count; i++)
			fprintf(out, "%s %s:%u %u %d\n", frames.frames[i].function,
				frames.frames[i].file, frames.frames[i].line,
				frames.frames[i].start_line, frames.frames[i].mangled);
	}
	symbols_index_ranges(symbols);
	symbols_find_start(symbols, offset, &start);
	fprintf(out, "%#lx\n", start);
	fclose(out);
}

struct program open_program(const char *path, size_t cap)
{
	struct program program = {.fd = open_file(path)};
	struct elf_copy file = elf_copy_load(path);

	program.result = symbols_new(program.fd, cap, &program.symbols);
	for (unsigned int i = 0; i < elf_copy_header(&file).e_phnum; i++) {
		const Elf64_Phdr segment = elf_copy_segment(&file, i);

		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
			continue;
		program.start = segment.p_offset;
		program.end = segment.p_offset + segment.p_filesz;
	}
	cr_assert_gt(program.end, program.start + CODE_LEAST_BYTES);
	elf_copy_free(&file);
	return program;
}

void close_program(struct program *program)
{
	symbols_free(program->symbols);
	close(program->fd);
}

void expect_same(const struct program *one, const struct program *other)
{
	char text[TEXT_BYTES], expected[TEXT_BYTES];

	cr_assert_eq(one->start, other->start);
	for (uint64_t at = one->start; at < one->end; at += STEP) {
		describe(one->symbols, at, text);
		describe(other->symbols, at, expected);
		cr_assert_str_eq(text, expected, "%#lx:\n%s\nexpected:\n%s", at, text, expected);
	}
}

void expect_unchanged(const struct program *program)
{
	struct program untouched = open_program(STRIPPED, CAP);
	const uint8_t *id;

	expect_same(program, &untouched);
	cr_expect_not(symbols_have_namer(program->symbols));
	cr_expect_eq(symbols_want_debug(program->symbols, &id), ID_BYTES);
	close_program(&untouched);
}

uint64_t offset_of(const char *name)
{
	struct program program = open_program(WHOLE, CAP);
	uint64_t found = 0;
	struct symbol symbol;

	for (uint64_t at = program.start; at < program.end && !found; at++) {
		if (symbols_find(program.symbols, at, &symbol) && strcmp(symbol.name, name) == 0)
			found = at;
	}
	close_program(&program);
	cr_assert_neq(found, 0, "%s", name);
	return found;
}

void expect_symbol(const struct program *program, uint64_t offset, const char *expected)
{
	struct symbol symbol = {.name = ""};

	cr_expect_eq(symbols_find(program->symbols, offset, &symbol), expected != NULL, "%s: %s",
		     expected, symbol.name);
	cr_expect_str_eq(symbol.name, expected ? expected : "");
}
