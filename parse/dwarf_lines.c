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
	/* Bytes of the program between two marks of a sequence. */
	MARK_BYTES = 256,
	/* How often a lookup reads as many: a forged program may have no row in them. */
	FIND_READS = 16,
	HEADER_BYTES_MAX = 512,
	PROGRAM_STEP = 64 << 10,
	/* Bytes that are enough for each instruction that has no other length. */
	INSTRUCTION_BYTES = 64,
	INSTRUCTION_COST = 4,
};
#define NO_ROW UINT64_MAX

/* --- the header --- */

/* Decodes the header at `start`, and finds where its tables of names are. */
static bool header_decode(struct dwarf_lines *lines, struct cursor *c, uint64_t start,
			  uint64_t *tables)
{
	const uint32_t length = cursor_u32(c);

	lines->encoding.offset_bytes = length == UINT32_MAX ? 8 : 4;
	const uint64_t whole = length == UINT32_MAX ? cursor_u64(c) : length;
	if (__builtin_add_overflow(start + cursor_offset(c), whole, &lines->end))
		return false;
	lines->encoding.version = cursor_u16(c);
	if (lines->encoding.version >= 5)
		cursor_skip(c, 2); /* sizes of an address and of a segment selector */
	const uint64_t rest = lines->encoding.offset_bytes == 8 ? cursor_u64(c) : cursor_u32(c);
	if (__builtin_add_overflow(start + cursor_offset(c), rest, &lines->program))
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
	       lines->line_range && lines->opcode_base && *tables <= lines->program &&
	       lines->program <= lines->end;
}

static const struct dwarf_line_machine initial_machine = {
    .line = 1, .file = 1, .last_start = NO_ROW};

/* Reads the header, after which the machine can start. Returns 0; -ENOENT: the unit has no table;
 * or an error. */
static int lines_start(struct dwarf_lines *lines, struct dwarf_reader *reader,
		       const struct dwarf_unit *unit)
{
	const uint64_t size = reader->file->sections[DWARF_LINE].size;
	const struct dwarf_value *value = &unit->root.values[DWARF_STMT_LIST];
	const uint64_t start = value->number;
	uint8_t bytes[HEADER_BYTES_MAX];
	uint64_t tables;

	lines->started = true;
	if (!value->form || start >= size)
		return -ENOENT;
	const size_t room = size - start < sizeof(bytes) ? (size_t)(size - start) : sizeof(bytes);
	memset(bytes, 0, sizeof(bytes));
	if (!dwarf_read(reader, DWARF_LINE, start, bytes, room))
		return -ENOENT;
	struct cursor c = cursor_init(bytes, room);
	lines->encoding = unit->encoding;
	if (!header_decode(lines, &c, start, &tables) || lines->end > size)
		return -ENOENT;
	lines->at = lines->program;
	lines->machine = initial_machine;
	return dwarf_line_names_read(&lines->names, reader, &lines->encoding, tables,
				     lines->program);
}

/* --- the program --- */

/* What an instruction has done, apart from changing the machine. */
enum event {
	NOTHING,
	ROW,
	END, /* the row that ends a sequence */
};

static enum event extended_run(struct dwarf_line_machine *m, struct cursor *c)
{
	const uint64_t length = cursor_uleb128(c);
	struct cursor operation = cursor_sub(c, length);

	if (c->failed)
		return NOTHING;
	switch (cursor_u8(&operation)) {
	case DW_LNE_end_sequence:
		return END;
	case DW_LNE_set_address:
		m->address = cursor_u64(&operation);
		return NOTHING;
	default: /* discriminators, and what is not known */
		return NOTHING;
	}
}

static enum event standard_run(const struct dwarf_lines *lines, struct dwarf_line_machine *m,
			       uint8_t opcode, struct cursor *c)
{
	switch (opcode) {
	case DW_LNS_copy:
		return ROW;
	case DW_LNS_advance_pc:
		m->address += cursor_uleb128(c) * lines->least_bytes;
		return NOTHING;
	case DW_LNS_advance_line:
		m->line += (uint64_t)cursor_sleb128(c);
		return NOTHING;
	case DW_LNS_set_file:
		m->file = cursor_uleb128(c);
		return NOTHING;
	case DW_LNS_const_add_pc:
		m->address +=
		    (uint64_t)((255 - lines->opcode_base) / lines->line_range) * lines->least_bytes;
		return NOTHING;
	case DW_LNS_fixed_advance_pc:
		m->address += cursor_u16(c);
		return NOTHING;
	default: /* columns, flags, and what is not known */
		for (unsigned int i = 0; i < lines->operands[opcode]; i++)
			cursor_uleb128(c);
		return NOTHING;
	}
}

/* Runs an instruction. It is part of two loops over all bytes of a program. */
static inline __attribute__((always_inline)) enum event
instruction_run(const struct dwarf_lines *lines, struct dwarf_line_machine *m, struct cursor *c)
{
	const uint8_t opcode = cursor_u8(c);

	if (opcode == 0)
		return extended_run(m, c);
	if (opcode < lines->opcode_base)
		return standard_run(lines, m, opcode, c);
	const unsigned int adjusted = (unsigned int)opcode - lines->opcode_base;
	m->address += (uint64_t)(adjusted / lines->line_range) * lines->least_bytes;
	m->line += (uint64_t)(int64_t)((int)(adjusted % lines->line_range) + lines->line_base);
	return ROW;
}

/* Returns whether a row of the machine counts. Linkers leave sequences of functions that they
 * removed, with other addresses. */
static bool row_counts(struct dwarf_line_machine *m, const struct dwarf_file *file)
{
	if (m->address < file->code_start || m->address > file->code_end ||
	    (m->last_start != NO_ROW && m->address < m->last_start))
		return false;
	m->last_start = m->address;
	return true;
}

static uint32_t file_number(const struct dwarf_line_machine *m)
{
	return m->file < INT32_MAX ? (uint32_t)m->file : 0;
}

/* --- rows --- */

/* Keeps a row as a mark, if that is due. `at` is where the program goes on, from its start. */
static int mark_add(struct dwarf_lines *lines, const struct dwarf_line_row *row, bool is_first,
		    uint64_t at)
{
	if (!is_first && !row->is_end && at - lines->marks[lines->mark_count - 1].at < MARK_BYTES)
		return 0;
	const int r =
	    ARRAY_RESERVE(lines->marks, lines->mark_capacity, lines->mark_count + 1, 16, ROWS_MAX);
	if (r < 0 || at > UINT32_MAX)
		return r < 0 ? r : -E2BIG;
	lines->marks[lines->mark_count++] = (struct dwarf_line_mark){*row, (uint32_t)at};
	return 0;
}

/* Adds the machine's row, after which the program goes on at an offset from its start. */
static int row_add(struct dwarf_lines *lines, const struct dwarf_file *file, uint64_t at,
		   bool is_end)
{
	const bool is_first = lines->machine.last_start == NO_ROW;
	const struct dwarf_line_machine *m = &lines->machine;
	struct dwarf_line_row *last = is_first ? NULL : &lines->rows[lines->count - 1];

	if (!row_counts(&lines->machine, file))
		return 0;
	const struct dwarf_line_row row = {.start = (uint32_t)(m->address - file->code_start),
					   .line = (uint32_t)m->line,
					   .file = file_number(m) & INT32_MAX,
					   .is_end = is_end};
	const int marked = mark_add(lines, &row, is_first, at);
	if (marked < 0)
		return marked;
	if (last && last->start == row.start) {
		*last = row;
		return 0;
	}
	if (last && !is_end && last->line == row.line && last->file == row.file)
		return 0;
	const int r = ARRAY_RESERVE(lines->rows, lines->capacity, lines->count + 1, 512, ROWS_MAX);
	if (r == 0)
		lines->rows[lines->count++] = row;
	return r;
}

/* Runs the instructions that start in the next bytes of the program. Returns 1 if something was
 * run, 0 if there is nothing more, or an error. */
static int program_run(struct dwarf_lines *lines, struct dwarf_reader *reader,
		       struct elf_window *window)
{
	const uint64_t left = lines->end - lines->at;
	const uint64_t before = lines->at - lines->program;
	struct cursor c;

	if (left == 0 ||
	    elf_window_get(window, lines->at, left < PROGRAM_STEP ? left : PROGRAM_STEP, &c) < 0)
		return 0;
	const bool is_rest = cursor_left(&c) == left;
	/* An instruction that is cut off at the end of the bytes is run with the next ones. */
	while (cursor_left(&c) && (is_rest || cursor_left(&c) >= INSTRUCTION_BYTES)) {
		const enum event event = instruction_run(lines, &lines->machine, &c);

		if (c.failed)
			return 0;
		const int r = event == NOTHING ? 0
					       : row_add(lines, reader->file,
							 before + cursor_offset(&c), event == END);
		if (r < 0)
			return r;
		if (event == END)
			lines->machine = initial_machine;
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

static int compare_marks(const void *a, const void *b)
{
	const struct dwarf_line_mark *x = a, *y = b;
	const int rows = compare_rows(&x->row, &y->row);

	return rows ? rows : (x->at > y->at) - (x->at < y->at);
}

static void lines_complete(struct dwarf_lines *lines)
{
	lines->complete = true;
	array_sort(lines->rows, lines->count, sizeof(lines->rows[0]), compare_rows);
	array_sort(lines->marks, lines->mark_count, sizeof(lines->marks[0]), compare_marks);
	ARRAY_FIT(lines->rows, lines->capacity, lines->count);
	ARRAY_FIT(lines->marks, lines->mark_capacity, lines->mark_count);
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
	while (r == 1 && dwarf_left(reader) > (uint64_t)INSTRUCTION_COST * PROGRAM_STEP);
	elf_window_fini(&window);
	if (r < 0)
		return r;
	if (r == 0)
		lines_complete(lines);
	return 0;
}

void dwarf_lines_strip(struct dwarf_lines *lines)
{
	if (!lines->complete)
		return;
	free(lines->rows);
	lines->rows = NULL;
	lines->count = lines->capacity = 0;
}

void dwarf_lines_free(struct dwarf_lines *lines)
{
	free(lines->rows);
	free(lines->marks);
	dwarf_line_names_free(&lines->names);
	*lines = (struct dwarf_lines){0};
}

size_t dwarf_lines_bytes(const struct dwarf_lines *lines)
{
	return lines->capacity * sizeof(lines->rows[0]) +
	       lines->mark_capacity * sizeof(lines->marks[0]) +
	       dwarf_line_names_bytes(&lines->names);
}

/* --- a lookup --- */

enum found {
	GOES_ON,
	ROW_FOUND,
	NO_LINE, /* the sequence has ended */
};

/* Runs instructions until a row after the address comes. `row` is the last one before. */
static enum found instructions_follow(const struct dwarf_lines *lines, struct dwarf_line_machine *m,
				      struct cursor *c, bool is_rest, const struct dwarf_file *file,
				      uint64_t vaddr, struct dwarf_line_row *row)
{
	while (cursor_left(c) && (is_rest || cursor_left(c) >= INSTRUCTION_BYTES)) {
		const enum event event = instruction_run(lines, m, c);

		if (c->failed)
			return ROW_FOUND;
		const bool counts = event != NOTHING && row_counts(m, file);
		if (counts && m->address > vaddr)
			return ROW_FOUND;
		if (event == END)
			return counts ? NO_LINE : ROW_FOUND;
		if (counts) {
			row->line = (uint32_t)m->line;
			row->file = file_number(m) & INT32_MAX;
		}
	}
	return GOES_ON;
}

/* Goes on from a mark to the last row before an address. */
static bool mark_follow(const struct dwarf_lines *lines, struct dwarf_reader *reader,
			const struct dwarf_line_mark *mark, uint64_t vaddr,
			struct dwarf_line_row *row)
{
	const uint64_t start = reader->file->code_start + mark->row.start;
	struct dwarf_line_machine m = {start, mark->row.line, mark->row.file, start};
	uint64_t at = lines->program + mark->at;
	enum found found = GOES_ON;
	uint8_t bytes[MARK_BYTES + INSTRUCTION_BYTES];

	*row = mark->row;
	for (unsigned int i = 0; i < FIND_READS && found == GOES_ON && at < lines->end; i++) {
		const uint64_t left = lines->end - at;
		const size_t length = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);

		if (!dwarf_read(reader, DWARF_LINE, at, bytes, length))
			break;
		struct cursor c = cursor_init(bytes, length);
		found =
		    instructions_follow(lines, &m, &c, length == left, reader->file, vaddr, row);
		at += cursor_offset(&c);
		dwarf_pay(reader, INSTRUCTION_COST * cursor_offset(&c));
	}
	return found != NO_LINE;
}

bool dwarf_lines_find(const struct dwarf_lines *lines, struct dwarf_reader *reader, uint64_t vaddr,
		      struct dwarf_line_row *row)
{
	const struct dwarf_file *file = reader->file;

	if (vaddr < file->code_start || vaddr >= file->code_end)
		return false;
	const uint32_t at = (uint32_t)(vaddr - file->code_start);
	if (lines->rows) {
		const size_t after =
		    SEARCH_LOWER_BOUND(i, lines->count, lines->rows[i].start <= at);

		if (after)
			*row = lines->rows[after - 1];
		return after && !row->is_end;
	}
	const size_t after =
	    SEARCH_LOWER_BOUND(i, lines->mark_count, lines->marks[i].row.start <= at);

	return after && !lines->marks[after - 1].row.is_end &&
	       mark_follow(lines, reader, &lines->marks[after - 1], vaddr, row);
}
