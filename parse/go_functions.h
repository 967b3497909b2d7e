/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names an address of a Go program: function, file and line, and the functions that are inlined
 * there.
 *
 * How this works. The table of functions is sorted, so a binary search in the file finds the
 * function. Its entry refers to lists of values that change along its code: the line, the file, and
 * which inlined call the code belongs to. Such a list is a sequence of pairs {difference of the
 * value, bytes of code} (go_values.h) that is read from the start of the function on. An inlined
 * call says which function was inlined, and gives an address whose line is that of the call.
 * Looking that address up in the same lists leads to the next function outwards.
 *
 * Example: main.run() calls add() in line 20, which was inlined and has the line 7. The address
 * 0x1035 is in main.run, which starts at 0x1000.
 *
 *	lines of main.run   {19, 0x20} {-12, 0x20} {+13, 0x40}   0x35 is in the second part: line 7
 *	its inlined calls   {-1, 0x20} { +1, 0x20} { -1, 0x40}   call 0: add(), called at +0x1f
 *	line at +0x1f       {19, 0x20}                           line 20 of main.run, not inlined
 *
 * So the calls are add (line 7) and main.run (line 20). A value starts at -1, so {19, ...} is 18 +
 * 1; the example leaves that out.
 *
 * Sources: runtime/symtab.go (pcvalue), runtime/symtabinl.go and runtime/runtime2.go (_func) of Go
 * 1.18 to 1.27. Pure: bytes come through an elf_source, and may be forged or change at any moment.
 */
#ifndef PARSE_GO_FUNCTIONS_H
#define PARSE_GO_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/go_module.h"

enum {
	/* Functions at one address. The compiler inlines chains of small functions without a limit
	 * of their depth; the standard library has up to 12. Beyond it, the outermost is shown. */
	GO_CALLS_MAX = 40,
};

/* A function at an address. Texts are offsets for go_functions_text(). */
struct go_call {
	uint32_t name;	     /* in the names */
	uint32_t file;	     /* in the files, if has_file */
	uint32_t line;	     /* 0 if unknown */
	uint32_t start_line; /* of the function; 0 if unknown */
	bool has_file;
};

struct go_position {
	unsigned int count; /* at least 1; the innermost inlined function comes first */
	struct go_call calls[GO_CALLS_MAX];
};

/* Finds what is at the virtual address. For a caller it must lie in the call, so it is the return
 * address - 1. `source` is the file of the module. Returns false, with `position` undefined, if no
 * function of Go covers the address, or the file cannot be read. */
bool go_functions_find(const struct go_module *module, const struct elf_source *source,
		       uint64_t vaddr, struct go_position *position);

/* Copies a text of `part`, which is the names or the files of a module. It is cut if it does not
 * fit into `room` bytes with its NUL, and empty if there is none. It may hold any bytes. */
void go_functions_text(const struct go_part *part, const struct elf_source *source, uint32_t offset,
		       char *text, size_t room);

#endif
