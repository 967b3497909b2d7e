/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A table of source positions (src/codegen/source-position-table.cc) is a list of
 * pairs, each the difference to the pair before: the offset in the code, then the position. Both
 * are numbers of variable length, seven bits per byte, the lowest first; the highest bit says that
 * more follows. The lowest bit of the number is its sign. A negative difference -n - 1 of offsets
 * is the difference n to a position that is no statement. In V8 14 the lowest bit of n says whether
 * a debugger may stop there. A position holds from its offset up to the next.
 *
 * Baseline code has another table (src/baseline/bytecode-offset-iterator.h), of numbers without
 * sign: the bytes of code that make the frame, then those of each bytecode.
 *
 * Example: the bytes 02 54 08 0c are two pairs. The first has the offset -1 + 1 = 0 and the
 * position 42, which is character 20. The second begins 4 bytes later and has the position 42 + 6,
 * which is character 23.
 */
#include "symbolizer/runtime/v8_positions.h"

#include "common/cursor.h"

enum {
	NUMBER_BITS = 7,
	NUMBER_MORE = 0x80,
	NUMBER_SHIFT_MAX = 56,
	/* Bits of a packed position: is external (1), line and file or offset + 1 (30), id of the
	 * inlined function + 1 (16). */
	OFFSET_SHIFT = 1,
	OFFSET_MASK = (1 << 30) - 1,
	INLINING_SHIFT = 31,
	INLINING_MASK = 0xffff,
	/* src/interpreter/bytecodes.h: Wide, ExtraWide, and their variants for debuggers. */
	BYTECODE_WIDE = 0,
	BYTECODE_EXTRA_WIDE = 1,
	BYTECODE_DEBUG_WIDE = 2,
	BYTECODE_DEBUG_EXTRA_WIDE = 3,
};

static uint64_t number(struct cursor *c)
{
	uint64_t value = 0;
	uint8_t byte = NUMBER_MORE;

	for (unsigned int shift = 0; (byte & NUMBER_MORE) && shift <= NUMBER_SHIFT_MAX;
	     shift += NUMBER_BITS) {
		byte = cursor_u8(c);
		value |= (uint64_t)(byte & ~NUMBER_MORE) << shift;
	}
	if (byte & NUMBER_MORE)
		c->failed = true;
	return value;
}

static int64_t signed_number(struct cursor *c)
{
	const uint64_t value = number(c);

	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

struct v8_position v8_position_unpack(uint64_t packed)
{
	struct v8_position position = {
	    .offset = -1, .inlining_id = (int32_t)(packed >> INLINING_SHIFT & INLINING_MASK) - 1};

	if (!(packed & 1))
		position.offset = (int32_t)(packed >> OFFSET_SHIFT & OFFSET_MASK) - 1;
	return position;
}

struct v8_position v8_position_find(const struct v8_position_table *table, uint32_t offset)
{
	struct cursor c = cursor_init(table->bytes, table->length);
	uint64_t packed = 0;
	int64_t at = -1;

	while (cursor_left(&c)) {
		const int64_t step = signed_number(&c);
		const int64_t change = signed_number(&c);

		if (c.failed)
			break;
		const uint64_t forward = (uint64_t)(step < 0 ? -(step + 1) : step);
		at = (int64_t)((uint64_t)at + (forward >> table->offset_shift));
		if (at < -1 || at > (int64_t)offset)
			break;
		packed += (uint64_t)change;
	}
	return v8_position_unpack(packed);
}

/* Skips a bytecode with its prefix. Returns false if there is none. */
static bool skip_bytecode(struct cursor *c, const struct v8_bytecodes *bytecodes)
{
	unsigned int scale = 0;
	uint8_t code = cursor_u8(c);

	if (code == BYTECODE_WIDE || code == BYTECODE_DEBUG_WIDE)
		scale = 1;
	else if (code == BYTECODE_EXTRA_WIDE || code == BYTECODE_DEBUG_EXTRA_WIDE)
		scale = 2;
	if (scale)
		code = cursor_u8(c);
	if (c->failed || code >= bytecodes->count)
		return false;
	const uint8_t size = bytecodes->sizes[scale * bytecodes->count + code];
	cursor_skip(c, size ? size - 1u : 0);
	return !c->failed;
}

int32_t v8_position_baseline(const uint8_t *table, size_t length, uint32_t offset,
			     const struct v8_bytecodes *bytecodes)
{
	struct cursor c = cursor_init(table, length);
	struct cursor code = cursor_init(bytecodes->bytes, bytecodes->length);
	uint64_t end = number(&c); /* of the code that makes the frame */
	size_t start = 0;

	while (end <= offset && !c.failed) {
		start = cursor_offset(&code);
		if (!skip_bytecode(&code, bytecodes))
			return -1;
		end += number(&c);
	}
	return c.failed ? -1 : (int32_t)start;
}

uint32_t v8_position_line(const uint32_t *ends, size_t count, uint32_t offset)
{
	size_t first = 0;

	while (count) {
		const size_t half = count / 2;

		if (ends[first + half] < offset) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return (uint32_t)first;
}
