/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of values that change along the code of a Go function: its line, its file, how far its
 * stack has grown.
 *
 * How this works. A list is a sequence of pairs of LEB128 numbers: by how much the value differs
 * from the one before, and for how many units of code it holds. The lowest bit of the first number
 * says whether the rest is inverted, so small negative differences are short. The value starts at
 * -1. A difference of 0 ends the list, unless it is the first one. No value holds for no code, so
 * the length of the code bounds that of the list.
 *
 * Example: the bytes 02 04 10 20 0f 01 00, where a unit is one byte (x86-64).
 *
 *	02 04	difference +1: the value is 0 up to 0x04
 *	10 20	difference +8: the value is 8 up to 0x24
 *	0f 01	difference -8 (0x0f is odd: ~7): the value is 0 up to 0x25
 *	00	the end
 *
 * Source: runtime/symtab.go of Go 1.18 to 1.27 (step). Internal to go_functions.c and go_rows.c.
 */
#ifndef PARSE_GO_VALUES_H
#define PARSE_GO_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/go_module.h"

enum {
	GO_VALUES_WINDOW_BYTES = 256, /* most lists are shorter */
};

struct go_values {
	const struct go_module *module;
	const struct elf_source *source;
	uint32_t value; /* of the last pair, to be read as signed */
	uint64_t end;	/* up to which it holds, in bytes from the start of the function */
	bool started;
	/* The bytes of the list that were read; `offset` is where the next ones are. */
	uint64_t offset;
	uint8_t bytes[GO_VALUES_WINDOW_BYTES];
	size_t at, length;
	bool failed;
};

/* Starts reading a list, which is an offset in module->values. */
void go_values_init(struct go_values *values, const struct go_module *module,
		    const struct elf_source *source, uint32_t list);

/* Reads the next pair. Returns false at the end, or if the list is malformed or cannot be read. */
bool go_values_next(struct go_values *values);

#endif
