/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the three formats of CPython's line tables.
 *
 * How this works: each format is a list of entries in the order of the code. An entry advances an
 * offset in the code and changes the line. The reader adds them up until it has passed the wanted
 * position. The formats differ in how an entry is written, and in whether an entry's line holds for
 * the code before it (3.10 on) or after it (before 3.10).
 *
 * Example (3.6 - 3.9): a function starts in line 10, its table is 0,1 4,1 4,8. Code offset 0 adds
 * 1: line 11. Offset 4 adds 1: line 12. Offset 8 adds 8: line 20. Position 5 is past offset 4 and
 * before offset 8, so it is in line 12.
 */
#include "symbolizer/runtime/cpython_lines.h"

#include "common/cursor.h"

enum {
	LINETABLE_NO_LINE = -128, /* in 3.10: the entry's code belongs to no line */
	/* The bits of the first byte of a 3.11 entry: 1, four bits of kind, and the length in code
	 * units less 1. */
	LOCATION_KIND_SHIFT = 3,
	LOCATION_KIND_MASK = 15,
	LOCATION_LENGTH_MASK = 7,
	CODE_UNIT_BYTES = 2, /* sizeof(_Py_CODEUNIT), since 3.6 */
	/* Kinds (PyCodeLocationInfoKind, Include/cpython/code.h). 0 - 9: same line and one byte of
	 * columns. 10 - 12: 0 to 2 lines further and two bytes of columns. */
	LOCATION_ONE_LINE_0 = 10,
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG = 14,
	LOCATION_NONE = 15,
	/* A varint has six bits per byte; five of them hold any line difference. */
	VARINT_BITS = 6,
	VARINT_SHIFT_MAX = 30,
	VARINT_CONTINUED = 0x40,
};

/* Finds a line in the format of 3.6 - 3.9 (Objects/lnotab_notes.txt): pairs of bytes of code
 * (unsigned) and lines (signed). A pair's line starts after its bytes of code. */
static uint32_t line_lnotab(struct cursor *c, uint32_t line, int64_t position)
{
	int64_t at = 0;

	while (cursor_left(c) >= 2) {
		at += cursor_u8(c);
		if (at > position)
			break;
		line += (uint32_t)(int32_t)(int8_t)cursor_u8(c);
	}
	return line;
}

/* Finds a line in the format of 3.10 (Objects/lnotab_notes.txt): pairs of bytes of code (unsigned)
 * and lines (signed). A pair's line holds for its bytes of code. */
static uint32_t line_linetable(struct cursor *c, uint32_t line, int64_t position)
{
	int64_t end = 0;

	while (cursor_left(c) >= 2) {
		end += cursor_u8(c);
		const int8_t delta = (int8_t)cursor_u8(c);

		if (delta != LINETABLE_NO_LINE)
			line += (uint32_t)(int32_t)delta;
		if (end > position)
			return delta == LINETABLE_NO_LINE ? 0 : line;
	}
	return line;
}

/* Reads a number with six bits per byte, the lowest first. Bit 6 is set if another byte follows. */
static uint32_t read_varint(struct cursor *c)
{
	uint32_t value = 0;

	for (unsigned int shift = 0; shift < VARINT_SHIFT_MAX; shift += VARINT_BITS) {
		const uint8_t byte = cursor_u8(c);

		value |= (uint32_t)(byte & 0x3f) << shift;
		if (!(byte & VARINT_CONTINUED))
			break;
	}
	return value;
}

/* Reads a number whose sign is in the lowest bit. */
static int32_t read_signed_varint(struct cursor *c)
{
	const uint32_t value = read_varint(c);

	return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* Finds a line in the format from 3.11 on (Objects/locations.md): an entry has a kind, which says
 * how the line and the columns are written, and a length in code units. */
static uint32_t line_locations(struct cursor *c, uint32_t line, int64_t position)
{
	int64_t end = 0;

	while (cursor_left(c)) {
		const uint8_t first = cursor_u8(c);
		const unsigned int kind = first >> LOCATION_KIND_SHIFT & LOCATION_KIND_MASK;
		bool none = false;

		end += CODE_UNIT_BYTES * ((first & LOCATION_LENGTH_MASK) + 1);
		if (kind == LOCATION_NONE) {
			none = true;
		} else if (kind == LOCATION_LONG) {
			line += (uint32_t)read_signed_varint(c);
			for (int i = 0; i < 3; i++) /* end line, start and end column */
				read_varint(c);
		} else if (kind == LOCATION_NO_COLUMNS) {
			line += (uint32_t)read_signed_varint(c);
		} else if (kind >= LOCATION_ONE_LINE_0) {
			line += kind - LOCATION_ONE_LINE_0;
			cursor_skip(c, 2);
		} else {
			cursor_skip(c, 1);
		}
		if (c->failed)
			return 0;
		if (end > position)
			return none ? 0 : line;
	}
	return line;
}

uint32_t cpython_line_find(enum cpython_line_format format, const uint8_t *table, size_t length,
			   uint32_t first_line, int32_t position)
{
	struct cursor c = cursor_init(table, length);

	if (position < 0)
		return first_line;
	switch (format) {
	case CPYTHON_LNOTAB:
		return line_lnotab(&c, first_line, position);
	case CPYTHON_LINETABLE:
		/* In 3.10 f_lasti counts instructions, not bytes
		 * (Include/cpython/frameobject.h). */
		return line_linetable(&c, first_line, (int64_t)position * CODE_UNIT_BYTES);
	default:
		return line_locations(&c, first_line, position);
	}
}
