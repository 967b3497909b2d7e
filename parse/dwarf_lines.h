/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File and line of an address: the line table of a unit (DWARF 5, 6.2; versions 2 to 5).
 *
 * How this works. The table is a program for a simple machine with an address, a file and a line.
 * Most of its instructions are one byte that adds something to the address and to the line, and
 * then appends a row. A sequence of rows has ascending addresses; the last one only says where it
 * ends. The program is run once, and each change of file or line is kept, in 12 bytes. Some rows
 * are also kept as marks, with the place in the program after it: the first one and the end of each
 * sequence, and one after about every 256 bytes of the program. If memory is wanted for other
 * units, only these stay. A lookup then runs the program from the last mark before the address, for
 * some fifty rows.
 *
 * Example: opcode_base 13, line_base -5, line_range 14. The machine is at 0x1000, line 7.
 *
 *	0x4b = 75: 75 - 13 = 62; address += 62 / 14 = 4, line += 62 % 14 - 5 = 1: row 0x1004, line 8
 *	0x13 = 19: 19 - 13 = 6;  address += 0,           line += 6 - 5 = 1: row 0x1004, line 9
 *
 * Of two rows with one address the last one counts, so 0x1004 is in line 9.
 */
#ifndef PARSE_DWARF_LINES_H
#define PARSE_DWARF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/dwarf_line_names.h"
#include "parse/dwarf_unit.h"

struct dwarf_line_row {
	uint32_t start; /* from the start of the file's code */
	uint32_t line;	/* 0 if unknown */
	uint32_t file : 31;
	uint32_t is_end : 1; /* of a sequence: nothing is known from here on */
};

struct dwarf_line_mark {
	struct dwarf_line_row row;
	uint32_t at; /* where the program goes on, from its start */
};

struct dwarf_line_machine {
	uint64_t address, line, file;
	uint64_t last_start; /* of the last row in this sequence; UINT64_MAX: there is none */
};

struct dwarf_lines {
	/* From the header. */
	struct dwarf_encoding encoding;
	uint8_t least_bytes; /* of an instruction of the processor */
	int8_t line_base;
	uint8_t line_range, opcode_base;
	uint8_t operands[256]; /* of standard instructions, by number */
	struct dwarf_line_names names;
	uint64_t program, end; /* where the program is in .debug_line */

	/* Where it was run to, and with which state. */
	uint64_t at;
	struct dwarf_line_machine machine;

	/* Both are sorted by start. */
	struct dwarf_line_row *rows; /* NULL: only the marks are left */
	struct dwarf_line_mark *marks;
	size_t count, capacity, mark_count, mark_capacity;
	bool started, complete;
};

/* Runs the program of the unit until its end, or until the reader's account is used up, which
 * lines->complete tells. A malformed instruction ends it. Returns 0; -E2BIG: there are too many
 * rows or files; or -ENOMEM. */
int dwarf_lines_read(struct dwarf_lines *lines, struct dwarf_reader *reader,
		     const struct dwarf_unit *unit);
void dwarf_lines_free(struct dwarf_lines *lines);
size_t dwarf_lines_bytes(const struct dwarf_lines *lines);

/* Gives back the memory of the rows, if the table is complete. */
void dwarf_lines_strip(struct dwarf_lines *lines);

/* Finds the row of an address, in a complete table, for its line and file. Returns false if there
 * is none. */
bool dwarf_lines_find(const struct dwarf_lines *lines, struct dwarf_reader *reader, uint64_t vaddr,
		      struct dwarf_line_row *row);

#endif
