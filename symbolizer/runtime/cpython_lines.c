/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a position in a code object, from tables of any bytes. */
#include "common/cursor.h"
#include "symbolizer/runtime/cpython.h"

/* Objects/lnotab_notes.txt of 3.6 - 3.9: bytes of code, lines (signed). */
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

/* PEP 626, 3.10: bytes of code, lines (signed); -128: this range has none. */
static uint32_t line_linetable(struct cursor *c, uint32_t line, int64_t position)
{
	int64_t end = 0;

	while (cursor_left(c) >= 2) {
		end += cursor_u8(c);
		const int8_t delta = (int8_t)cursor_u8(c);

		if (delta != -128)
			line += (uint32_t)(int32_t)delta;
		if (end > position)
			return delta == -128 ? 0 : line;
	}
	return line;
}

/* Six bits a byte, lowest first; bit 6: more follow. */
static uint32_t read_varint(struct cursor *c)
{
	uint32_t value = 0;

	for (unsigned int shift = 0; shift < 30; shift += 6) {
		const uint8_t byte = cursor_u8(c);

		value |= (uint32_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40))
			break;
	}
	return value;
}

static int32_t read_signed_varint(struct cursor *c)
{
	const uint32_t value = read_varint(c);

	return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* Objects/locations.md, 3.11 on: entries of code units (2 bytes) with a kind. */
static uint32_t line_locations(struct cursor *c, uint32_t line, int64_t position)
{
	int64_t end = 0;

	while (cursor_left(c)) {
		const uint8_t first = cursor_u8(c);
		const unsigned int kind = first >> 3 & 15;
		bool none = false;

		end += 2 * ((first & 7) + 1);
		if (kind == 15) {
			none = true;
		} else if (kind == 14) {
			line += (uint32_t)read_signed_varint(c);
			for (int i = 0; i < 3; i++)
				read_varint(c);
		} else if (kind == 13) {
			line += (uint32_t)read_signed_varint(c);
		} else if (kind >= 10) {
			line += kind - 10;
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

uint32_t cpython_line(enum cpython_lines format, const uint8_t *table, size_t length,
		      uint32_t first_line, int32_t position)
{
	struct cursor c = cursor_init(table, length);

	if (position < 0)
		return first_line;
	switch (format) {
	case CPYTHON_LNOTAB:
		return line_lnotab(&c, first_line, position);
	case CPYTHON_LINETABLE:
		/* f_lasti counts instructions. */
		return line_linetable(&c, first_line, (int64_t)position * 2);
	default:
		return line_locations(&c, first_line, position);
	}
}
