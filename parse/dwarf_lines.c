/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_lines.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/search.h"
enum {
	ROWS_MAX = 1 << 18, /* 3 MB; the largest unit of gcc has some 50,000 */
	HEADER_BYTES_MAX = 512,
	PROGRAM_STEP = 64 << 10,
	/* Bytes that are enough for each instruction that has no other length. */
	INSTRUCTION_BYTES = 64,
	INSTRUCTION_COST = 4,
};
#define NO_ROW UINT64_MAX

/* --- the header --- */

static bool header_decode(struct dwarf_lines *lines, struct cursor *c, uint64_t *tables,
			  uint64_t *program)
{
	const uint64_t start = lines->at;
	const uint32_t length = cursor_u32(c);

	lines->encoding.offset_bytes = length == UINT32_MAX ? 8 : 4;
	const uint64_t whole = length == UINT32_MAX ? cursor_u64(c) : length;
	if (__builtin_add_overflow(start + cursor_offset(c), whole, &lines->end))
		return false;
	lines->encoding.version = cursor_u16(c);
	if (lines->encoding.version >= 5)
		cursor_skip(c, 2); /* sizes of an address and of a segment selector */
	const uint64_t rest = lines->encoding.offset_bytes == 8 ? cursor_u64(c) : cursor_u32(c);
	if (__builtin_add_overflow(start + cursor_offset(c), rest, program))
		return false;
	lines->least_bytes = cursor_u8(c);
	if (lines->encoding.version >= 4)
		cursor_u8(c); /* maximum_operations_per_instruction: 1 but for VLIW processors */
	cursor_u8(c);	      /* default_is_stmt */
	lines->line_base = (int8_t)cursor_u8(c);
	lines->line_range = cursor_u8(c);
	lines->opcode_base = cursor_u8(c);
	for (unsigned int i = 1; i < lines->opcode_base; i++)
		lines->operands[i] = cursor_u8(c);
	*tables = start + cursor_offset(c);
	return !c->failed && lines->encoding.version >= 2 && lines->encoding.version <= 5 &&
	       lines->line_range && lines->opcode_base && *tables <= *program &&
	       *program <= lines->end;
}

static void machine_reset(struct dwarf_lines *lines)
{
	lines->address = 0;
	lines->line = 1;
	lines->file = 1;
	lines->last_start = NO_ROW;
}

/* Reads the header, after which the machine can start. Returns 0; -ENOENT: the unit has no table;
 * or an error. */
static int lines_start(struct dwarf_lines *lines, struct dwarf_reader *reader,
		       const struct dwarf_unit *unit)
{
	const uint64_t size = reader->file->sections[DWARF_LINE].size;
	const struct dwarf_value *value = &unit->root.values[DWARF_STMT_LIST];
	uint8_t bytes[HEADER_BYTES_MAX];
	uint64_t tables, program;

	lines->started = true;
	lines->at = value->number;
	if (!value->form || lines->at >= size)
		return -ENOENT;
	const size_t room =
	    size - lines->at < sizeof(bytes) ? (size_t)(size - lines->at) : sizeof(bytes);
	memset(bytes, 0, sizeof(bytes));
	if (!dwarf_read(reader, DWARF_LINE, lines->at, bytes, room))
		return -ENOENT;
	struct cursor c = cursor_init(bytes, room);
	lines->encoding = unit->encoding;
	if (!header_decode(lines, &c, &tables, &program) || lines->end > size)
		return -ENOENT;
	const int r =
	    dwarf_line_names_read(&lines->names, reader, &lines->encoding, tables, program);
	lines->at = program;
	machine_reset(lines);
	return r;
}

/* --- the program --- */

static int row_add(struct dwarf_lines *lines, const struct dwarf_file *file, bool is_end)
{
	struct dwarf_line_row row = {.line = (uint32_t)lines->line,
				     .file = lines->file < INT32_MAX ? lines->file & INT32_MAX : 0,
				     .is_end = is_end};
	const bool continues = lines->last_start != NO_ROW;
	struct dwarf_line_row *last = continues ? &lines->rows[lines->count - 1] : NULL;

	/* Linkers leave sequences of functions that they removed, with other addresses. */
	if (lines->address < file->code_start || lines->address > file->code_end ||
	    (continues && lines->address < lines->last_start))
		return 0;
	row.start = (uint32_t)(lines->address - file->code_start);
	lines->last_start = lines->address;
	if (last && last->start == row.start) {
		*last = row;
		return 0;
	}
	if (last && !is_end && last->line == row.line && last->file == row.file)
		return 0;
	const int r = ARRAY_RESERVE(lines->rows, lines->capacity, lines->count + 1, 64, ROWS_MAX);
	if (r == 0)
		lines->rows[lines->count++] = row;
	return r;
}

static int extended_run(struct dwarf_lines *lines, struct cursor *c, const struct dwarf_file *file)
{
	const uint64_t length = cursor_uleb128(c);
	struct cursor operation = cursor_sub(c, length);
	int r = 0;

	if (c->failed)
		return 0;
	switch (cursor_u8(&operation)) {
	case DW_LNE_end_sequence:
		r = row_add(lines, file, true);
		machine_reset(lines);
		break;
	case DW_LNE_set_address:
		lines->address = cursor_u64(&operation);
		break;
	default: /* discriminators, and what is not known */
		break;
	}
	return r;
}

static int standard_run(struct dwarf_lines *lines, uint8_t opcode, struct cursor *c,
			const struct dwarf_file *file)
{
	switch (opcode) {
	case DW_LNS_copy:
		return row_add(lines, file, false);
	case DW_LNS_advance_pc:
		lines->address += cursor_uleb128(c) * lines->least_bytes;
		return 0;
	case DW_LNS_advance_line:
		lines->line += (uint64_t)cursor_sleb128(c);
		return 0;
	case DW_LNS_set_file:
		lines->file = cursor_uleb128(c);
		return 0;
	case DW_LNS_const_add_pc:
		lines->address +=
		    (uint64_t)((255 - lines->opcode_base) / lines->line_range) * lines->least_bytes;
		return 0;
	case DW_LNS_fixed_advance_pc:
		lines->address += cursor_u16(c);
		return 0;
	default: /* columns, flags, and what is not known */
		for (unsigned int i = 0; i < lines->operands[opcode]; i++)
			cursor_uleb128(c);
		return 0;
	}
}

static int instruction_run(struct dwarf_lines *lines, struct cursor *c,
			   const struct dwarf_file *file)
{
	const uint8_t opcode = cursor_u8(c);

	if (opcode == 0)
		return extended_run(lines, c, file);
	if (opcode < lines->opcode_base)
		return standard_run(lines, opcode, c, file);
	const unsigned int adjusted = (unsigned int)opcode - lines->opcode_base;
	lines->address += (uint64_t)(adjusted / lines->line_range) * lines->least_bytes;
	lines->line += (uint64_t)(int64_t)((int)(adjusted % lines->line_range) + lines->line_base);
	return row_add(lines, file, false);
}

/* Runs the instructions that start in the next bytes of the program. Returns 1 if something was
 * run, 0 if there is nothing more, or an error. */
static int program_run(struct dwarf_lines *lines, struct dwarf_reader *reader,
		       struct elf_window *window)
{
	uint64_t left = lines->end - lines->at;
	struct cursor c;

	if (left == 0 ||
	    elf_window_get(window, lines->at, left < PROGRAM_STEP ? left : PROGRAM_STEP, &c) < 0)
		return 0;
	if (cursor_left(&c) > left)
		c.end = c.at + left;
	const bool is_rest = cursor_left(&c) == left;
	/* An instruction that is cut off at the end of the bytes is run with the next ones. */
	while (cursor_left(&c) && (is_rest || cursor_left(&c) >= INSTRUCTION_BYTES)) {
		const int r = instruction_run(lines, &c, reader->file);

		if (c.failed || r < 0)
			return r < 0 ? r : 0;
	}
	lines->at += cursor_offset(&c);
	dwarf_pay(reader, INSTRUCTION_COST * cursor_offset(&c));
	return 1;
}

static int compare_rows(const void *a, const void *b)
{
	const struct dwarf_line_row *x = a, *y = b;

	if (x->start != y->start)
		return x->start > y->start ? 1 : -1;
	return (int)y->is_end - (int)x->is_end;
}

/* Sorts the rows, gives back the memory that they do not need, and ends the table. */
static void lines_complete(struct dwarf_lines *lines)
{
	lines->complete = true;
	for (size_t i = 1; i < lines->count; i++) {
		if (compare_rows(&lines->rows[i - 1], &lines->rows[i]) <= 0)
			continue;
		qsort(lines->rows, lines->count, sizeof(lines->rows[0]), compare_rows);
		break;
	}
	void *rows =
	    lines->count ? realloc(lines->rows, lines->count * sizeof(lines->rows[0])) : NULL;
	if (rows) {
		lines->rows = rows;
		lines->capacity = lines->count;
	}
}

int dwarf_lines_read(struct dwarf_lines *lines, struct dwarf_reader *reader,
		     const struct dwarf_unit *unit)
{
	struct elf_window window;
	int r = lines->started ? 0 : lines_start(lines, reader, unit);

	if (r == -ENOENT)
		lines->complete = true;
	if (r < 0 || lines->complete)
		return r == -ENOENT ? 0 : r;
	dwarf_window_init(reader, DWARF_LINE, PROGRAM_STEP, &window);
	elf_window_limit(&window, lines->end);
	do
		r = program_run(lines, reader, &window);
	while (r == 1 && reader->left > (uint64_t)INSTRUCTION_COST * PROGRAM_STEP);
	elf_window_fini(&window);
	if (r < 0)
		return r;
	if (r == 0)
		lines_complete(lines);
	return 0;
}

void dwarf_lines_free(struct dwarf_lines *lines)
{
	free(lines->rows);
	dwarf_line_names_free(&lines->names);
	*lines = (struct dwarf_lines){0};
}

size_t dwarf_lines_bytes(const struct dwarf_lines *lines)
{
	return lines->capacity * sizeof(lines->rows[0]) + dwarf_line_names_bytes(&lines->names);
}

const struct dwarf_line_row *dwarf_lines_find(const struct dwarf_lines *lines,
					      const struct dwarf_file *file, uint64_t vaddr)
{
	if (vaddr < file->code_start || vaddr >= file->code_end)
		return NULL;
	const uint32_t at = (uint32_t)(vaddr - file->code_start);
	const size_t after = SEARCH_LOWER_BOUND(i, lines->count, lines->rows[i].start <= at);

	return after && !lines->rows[after - 1].is_end ? &lines->rows[after - 1] : NULL;
}
