/* SPDX-License-Identifier: Apache-2.0 */
/* Line tables of made-up programs, whose rows are known: as a whole, and when most rows were given
 * back. */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "parse/dwarf_lines.h"

enum {
	CODE_START = 0x400000,
	SEQUENCES = 20,
	SEQUENCE_CODE = 2000, /* bytes of code; the same number of bytes without code follows */
	CODE_BYTES = 2 * SEQUENCES * SEQUENCE_CODE,
	PROGRAM_BYTES_MAX = 1 << 20,
	BARREN_BYTES = 200000, /* of a program without rows */
	COST_MAX = 100000,     /* of a lookup: far less than that of the program */
};

static uint8_t program[PROGRAM_BYTES_MAX];
static size_t length;
/* What is known of each address; 0: no line. */
static struct {
	uint32_t line, file;
} known[CODE_BYTES];
static struct dwarf_file file = {.code_start = CODE_START, .code_end = CODE_START + CODE_BYTES};
static struct dwarf_unit unit;
static struct dwarf_lines lines;
static uint32_t random_state = 1;

static void put_byte(uint8_t byte)
{
	cr_assert_lt(length, PROGRAM_BYTES_MAX);
	program[length++] = byte;
}

static void put_number(uint32_t number)
{
	for (; number >= 0x80; number >>= 7)
		put_byte((uint8_t)(number | 0x80));
	put_byte((uint8_t)number);
}

/* A number from -64 to 63. */
static void put_small(int number)
{
	put_byte((uint8_t)number & 0x7f);
}

static uint32_t chance(uint32_t below)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % below;
}

/* Writes the header of a table of DWARF 4 without files. */
static void put_header(void)
{
	static const uint8_t rest[] = {4, 0, /* version */
				       0, 0, 0, 0, 1, 1, 1, (uint8_t)-5, 14, 13, 0,
				       1, 1, 1, 1, 0, 0, 0, 1,		 0,  0,	 1, /* operands */
				       0, 0}; /* directories, files */

	memset(program, 0, sizeof(program));
	memcpy(program + 4, rest, sizeof(rest));
	program[6] = sizeof(rest) - 6; /* how many bytes follow up to the program */
	length = 4 + sizeof(rest);
}

static void put_address(uint64_t address)
{
	put_byte(0);
	put_byte(9);
	put_byte(DW_LNE_set_address);
	memcpy(program + length, &address, sizeof(address));
	length += sizeof(address);
}

static void put_end(void)
{
	put_byte(0);
	put_byte(1);
	put_byte(DW_LNE_end_sequence);
}

/* Makes a line known from an address up to the next sequence. */
static void know(uint32_t at, uint32_t start, uint32_t line, uint32_t number)
{
	for (; at < start + 2 * SEQUENCE_CODE; at++) {
		known[at].line = line;
		known[at].file = number;
	}
}

/* Writes rows of a sequence in all ways that there are. */
static void put_sequence(uint32_t start)
{
	uint32_t at = start, line = 1, number = 1;

	put_address(CODE_START + start);
	put_byte(DW_LNS_advance_line);
	put_small(50);
	line += 50;
	while (at < start + SEQUENCE_CODE) {
		const uint32_t advance = chance(4);
		const int more = line > 40 ? (int)chance(9) - 4 : (int)chance(5);

		switch (chance(4)) {
		case 0:
			number = 1 + chance(300);
			put_byte(DW_LNS_set_file);
			put_number(number);
			__attribute__((fallthrough));
		case 1:
			put_byte(DW_LNS_advance_pc);
			put_number(advance);
			put_byte(DW_LNS_advance_line);
			put_small(more);
			put_byte(DW_LNS_copy);
			break;
		default:
			put_byte((uint8_t)(advance * 14 + (uint32_t)(more + 5) + 13));
		}
		at += advance;
		line += (uint32_t)more;
		know(at, start, line, number);
	}
	put_byte(DW_LNS_fixed_advance_pc);
	put_byte(10);
	put_byte(0);
	know(at + 10, start, 0, 0);
	put_end();
}

static struct dwarf_reader reader(void)
{
	return (struct dwarf_reader){.file = &file, .left = UINT32_MAX};
}

static void table_read(void)
{
	const uint32_t rest = (uint32_t)length - 4;
	struct dwarf_reader at = reader();

	memcpy(program, &rest, sizeof(rest));
	file.sections[DWARF_LINE].contents = (struct elf_buffer){program, length};
	file.sections[DWARF_LINE].size = length;
	unit.encoding =
	    (struct dwarf_encoding){.version = 4, .offset_bytes = 4, .address_bytes = 8};
	unit.root.values[DWARF_STMT_LIST].form = DW_FORM_sec_offset;
	while (!lines.complete)
		cr_assert_eq(dwarf_lines_read(&lines, &at, &unit), 0);
}

static void expect_known(const char *what)
{
	for (uint32_t i = 0; i < CODE_BYTES; i++) {
		struct dwarf_reader at = reader();
		struct dwarf_line_row row;

		const bool found = dwarf_lines_find(&lines, &at, CODE_START + i, &row);
		cr_assert_eq(found, known[i].line != 0, "%s: %u", what, i);
		if (!found)
			continue;
		cr_assert_eq(row.line, known[i].line, "%s: %u", what, i);
		cr_assert_eq(row.file, known[i].file, "%s: %u", what, i);
	}
}

Test(dwarf_lines, are_found_also_when_most_rows_were_given_back)
{
	put_header();
	for (uint32_t i = 0; i < SEQUENCES; i++)
		put_sequence(2 * SEQUENCE_CODE * (i * 7 % SEQUENCES));
	/* Of a function that the linker removed. */
	put_address(0);
	put_byte(DW_LNS_copy);
	put_end();
	table_read();
	expect_known("all rows");
	const size_t bytes = dwarf_lines_bytes(&lines);

	for (unsigned int i = 0; i < 2; i++) {
		dwarf_lines_strip(&lines);
		cr_expect_lt(dwarf_lines_bytes(&lines), bytes / 10, "%zu of %zu",
			     dwarf_lines_bytes(&lines), bytes);
		expect_known("few rows");
	}
	dwarf_lines_free(&lines);
}

Test(dwarf_lines, a_lookup_does_not_go_through_a_program_without_rows)
{
	struct dwarf_reader at = reader();
	struct dwarf_line_row row;

	put_header();
	put_address(CODE_START);
	put_byte(DW_LNS_copy);
	for (unsigned int i = 0; i < BARREN_BYTES; i++)
		put_byte(DW_LNS_negate_stmt);
	put_byte(DW_LNS_advance_pc);
	put_number(100);
	put_end();
	table_read();
	dwarf_lines_strip(&lines);
	cr_assert(dwarf_lines_find(&lines, &at, CODE_START + 50, &row));
	cr_expect_eq(row.line, 1);
	cr_expect_lt(UINT32_MAX - at.left, COST_MAX);
	cr_expect_not(dwarf_lines_find(&lines, &at, CODE_START + 100, &row));
	dwarf_lines_free(&lines);
}

Test(dwarf_lines, that_are_not_complete_stay)
{
	struct dwarf_reader at = {.file = &file, .left = 1 << 19};

	put_header();
	put_address(CODE_START);
	while (length < PROGRAM_BYTES_MAX - 100)
		put_byte(0x4b);
	table_read();
	dwarf_lines_free(&lines);
	cr_assert_eq(dwarf_lines_read(&lines, &at, &unit), 0);
	cr_assert_not(lines.complete);
	const size_t count = lines.count;
	dwarf_lines_strip(&lines);
	cr_expect_eq(lines.count, count);
	dwarf_lines_free(&lines);
}
