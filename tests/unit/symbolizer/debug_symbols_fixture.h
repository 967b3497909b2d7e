/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of debug files share: a program, the same stripped, and its debug files, which are
 * made from fixture_inlined.cpp by objcopy (see CMakeLists.txt). */
#ifndef TESTS_DEBUG_SYMBOLS_FIXTURE_H
#define TESTS_DEBUG_SYMBOLS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/namer/named_frames.h"
#include "symbolizer/worker/symbols.h"
#include "tests/unit/symbolizer/elf_copy.h"

#define WHOLE DEBUG_FIXTURE
#define STRIPPED DEBUG_FIXTURE "_stripped"    /* has .dynsym */
#define WITH_SYMTAB DEBUG_FIXTURE "_symtab"   /* and no debug information */
#define LINKED DEBUG_FIXTURE "_linked"	      /* STRIPPED, with .gnu_debuglink */
#define PACKED DEBUG_FIXTURE "_packed"	      /* STRIPPED, with .gnu_debugdata */
#define DEBUG_FILE DEBUG_FIXTURE ".debug"     /* has both */
#define ZSTD_FILE DEBUG_FIXTURE "_zstd.debug" /* DEBUG_FILE, compressed */
#define DWZ_FILE DEBUG_FIXTURE "_dwz.debug"   /* DEBUG_FILE, of which a part is in ALTERNATE_FILE */
#define ALTERNATE_FILE DEBUG_FIXTURE "_dwz.alternate"
#define SYMTAB_FILE DEBUG_FIXTURE "_symtab.debug"

enum {
	STEP = 7, /* bytes of code between two addresses that are compared */
	ID_BYTES = 20,
	TEXT_BYTES = 4096,
	PARTS_MAX = 1000,
	CODE_LEAST_BYTES = 2000,
	CUTS = 150,		/* lengths of a damaged file that are tried */
	NOTE_HEADER_BYTES = 16, /* up to the build id: with the name "GNU" */
};

/* A program with its symbols. The files are open as long as they are. */
struct program {
	int fd;
	int result; /* of symbols_new() */
	struct symbols *symbols;
	uint64_t start, end; /* file offsets of its code */
};

/* Returns the note with the build id. */
uint8_t *note_of(const struct elf_copy *file);

int find_frames(struct symbols *symbols, uint64_t offset, struct named_frames *frames);

/* Writes all that is known of an offset: the symbol, then a line for each function. */
void describe(struct symbols *symbols, uint64_t offset, char text[TEXT_BYTES]);

struct program open_program(const char *path, size_t cap);

void close_program(struct program *program);

/* Both programs say the same of all of their code. */
void expect_same(const struct program *one, const struct program *other);

/* The program says what a stripped one says without a debug file, and wants one. */
void expect_unchanged(const struct program *program);

/* Returns the offset of a function of the program before it was stripped. */
uint64_t offset_of(const char *name);

/* Checks the name of a function by symbols. NULL: it has none. */
void expect_symbol(const struct program *program, uint64_t offset, const char *expected);

#endif
