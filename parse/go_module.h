/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the tables of functions in a program that the Go linker wrote.
 *
 * How this works. A Go program carries the name, the file, the lines and the inlined calls of each
 * of its functions, because its own tracebacks need them. `strip` does not remove them. They are in
 * two pieces of the file:
 *
 * - The table of functions begins with a header: a magic number for its format, and where its parts
 *   are (names, files, units, values, functions). It is the section .gopclntab. If GNU ld has
 *   linked a position-independent program, it is somewhere in .data.rel.ro, and is found by the
 *   magic number.
 * - The inlined calls are one list for each function that has any. They are in read-only data
 *   without a name.
 *
 * Only the runtime's `moduledata` says where the second piece is, and at which address the code
 * begins. It has no name in a stripped file either, but its first word is the address of the table.
 * So that word is searched in the sections where moduledata may be, and in the relocations: GNU ld
 * writes the addresses of a position-independent program only there. What is found counts only if
 * its other words are the addresses of the parts of the table.
 *
 * Example, from a program of Go 1.26: the table is at 0x5a8f20, and its header says that the names
 * are at +0x60. The word 0x5a8f20 is found at 0x6c1000, followed by 0x5a8f80, which is the table +
 * 0x60. So this is moduledata. Its word 22 is the start of the code, 0x401000; its word 40 is where
 * the inlined calls are.
 *
 * Sources: runtime/symtab.go (pcHeader, moduledata) and internal/abi/symtab.go of Go 1.18 to 1.27.
 * Pure: bytes come through an elf_source, and may be forged or change at any moment.
 */
#ifndef PARSE_GO_MODULE_H
#define PARSE_GO_MODULE_H

#include <stdint.h>

#include "parse/elf_image.h"

enum {
	/* An entry of the table of functions: {start of the function, where its description is}.
	 * Both are relative: to the code, and to the table. */
	GO_ENTRY_BYTES = 8,
};

/* A part of the file, in bytes. */
struct go_part {
	uint64_t offset, size;
};

struct go_module {
	bool has_start_lines; /* the format of Go 1.20 and later; otherwise that of 1.18 and 1.19 */
	uint8_t quantum; /* instructions start at multiples of this many bytes: x86-64 1, arm64 4 */
	uint32_t function_count;
	uint64_t text_vaddr; /* addresses of functions are relative to it */
	struct go_part names, units, files, values, functions;
	struct go_part inlined; /* of size 0 if it was not found: inlined functions are not known */
};

/* Finds the tables in a file. Returns 0; -ENOENT if it has none: it is not a Go program, or one
 * before Go 1.18; -ENOMEM; or the source's error. */
int go_module_find(struct go_module *module, const struct elf_image *image);

/* The same without moduledata, for which much of the file may have to be searched: the code and the
 * inlined calls are not known. */
int go_module_find_table(struct go_module *module, const struct elf_image *image);

#endif
