/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes HotSpot's formats.
 *
 * How this works:
 *	- UNSIGNED5 (utilities/unsigned5.hpp) writes a number in 1 to 5 bytes, 6 bits in each, the
 *	  lowest first. A byte below 192 is the last one. Bytes are added, not masked, so
 *	  that the last byte carries log2(192) bits.
 *	- A line table is a sequence of differences. A byte other than 0 and 255 is a small one: 5
 *	  bits of bytecode index, 3 bits of line. 255 is followed by two signed UNSIGNED5 numbers. 0
 *	  ends the table.
 *	- The scopes of a compiled method are a byte stream with a scope at many offsets: the offset
 *	  of the caller's scope (0: none), the method's index in the metadata, and the bytecode
 *	  index plus 1. A caller is always written before what is inlined into it, so offsets
 *	  decrease along the chain. A chain in which they do not is forged.
 *
 * Example (JDK 17): the scope at offset 20 is 04 02 0a: its caller's scope is at 4, it is method 2
 * of the metadata, and bytecode 9. At offset 4 is 00 01 15: no caller, method 1, bytecode 20. So
 * method 2 was inlined into method 1 at bytecode 20.
 */
#include "symbolizer/runtime/hotspot_encoding.h"

#include <errno.h>
#include <string.h>

#include "common/search.h"

enum {
	UNSIGNED5_BYTES = 5,
	UNSIGNED5_BITS = 6,	   /* lg_H: bits per byte that is not the last one */
	UNSIGNED5_CONTINUED = 192, /* L: after a byte of this value or more, another one follows */
	LINE_FULL = 0xff,	   /* two numbers follow */
	LINE_BITS = 3,		   /* of the line, in a byte with both differences */
	DIMENSIONS_MAX = 255,	   /* of an array type (JVMS 4.3.2) */
};

static uint8_t next_byte(struct hotspot_stream *s)
{
	if (s->at >= s->length) {
		s->failed = true;
		return 0;
	}
	return s->bytes[s->at++];
}

uint32_t hotspot_unsigned5(struct hotspot_stream *s)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < UNSIGNED5_BYTES; i++) {
		const uint8_t byte = next_byte(s);

		if (s->failed)
			return 0;
		sum += ((uint32_t)byte - s->zero_excluded) << (UNSIGNED5_BITS * i);
		if (byte < UNSIGNED5_CONTINUED)
			break;
	}
	return sum;
}

/* Reads a signed number, which has its sign in the lowest bit. */
static uint32_t signed5(struct hotspot_stream *s)
{
	const uint32_t value = hotspot_unsigned5(s);

	return value >> 1 ^ (0 - (value & 1));
}

bool hotspot_next_line(struct hotspot_stream *s, struct hotspot_line *entry)
{
	const uint8_t byte = next_byte(s);

	if (s->failed || byte == 0)
		return false;
	if (byte == LINE_FULL) {
		entry->bci += signed5(s);
		entry->line += signed5(s);
	} else {
		entry->bci += byte >> LINE_BITS;
		entry->line += byte & ((1 << LINE_BITS) - 1);
	}
	return !s->failed;
}

uint32_t hotspot_line_of(const struct hotspot_line *lines, size_t count, uint32_t bci)
{
	const struct hotspot_line *best = NULL;

	for (size_t i = 0; i < count; i++) {
		if (lines[i].bci <= bci && (!best || lines[i].bci >= best->bci))
			best = &lines[i];
	}
	return best ? best->line : 0;
}

const struct hotspot_pc_desc *hotspot_find_pc_desc(const struct hotspot_pc_desc *descs,
						   size_t count, uint32_t code_offset)
{
	size_t at = SEARCH_LOWER_BOUND(
	    i, count, descs[i].code_offset < 0 || (uint32_t)descs[i].code_offset < code_offset);

	/* There is none with a scope at or after the offset, so the one before it is taken. */
	if (at == count || descs[at].scope <= 0) {
		if (at == 0)
			return NULL;
		at--;
	}
	return descs[at].scope > 0 && descs[at].code_offset >= 0 ? &descs[at] : NULL;
}

int hotspot_decode_scopes(const uint8_t *bytes, size_t length, bool zero_excluded, uint32_t scope,
			  struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX])
{
	int count = 0;

	while (scope && count < HOTSPOT_SCOPES_MAX) {
		struct hotspot_stream s = {
		    .bytes = bytes, .length = length, .at = scope, .zero_excluded = zero_excluded};
		const uint32_t sender = hotspot_unsigned5(&s);

		scopes[count].method = hotspot_unsigned5(&s);
		scopes[count].bci = (int32_t)(hotspot_unsigned5(&s) - 1);
		/* A caller is written before what is inlined into it, so there are no circles. */
		if (s.failed || sender >= scope || scopes[count].bci < HOTSPOT_NO_BYTECODE)
			return -EBADMSG;
		count++;
		scope = sender;
	}
	return count;
}

/* A buffer that is filled up to `size` - 1 bytes. */
struct text {
	char *bytes;
	size_t size, length;
};

static void put(struct text *t, const char *from, size_t length)
{
	for (size_t i = 0; i < length && t->length + 1 < t->size; i++)
		t->bytes[t->length++] = from[i];
}

/* Returns how many bytes follow the first byte of a character; -1 if no character starts with it.
 * Modified UTF-8 has no characters of four bytes. */
static int bytes_after_first(uint8_t first)
{
	if (first < ' ' || first == 0x7f)
		return -1;
	if (first < 0x80)
		return 0;
	if (first >= 0xc0 && first < 0xe0)
		return 1;
	return first >= 0xe0 && first < 0xf0 ? 2 : -1;
}

bool hotspot_is_name(const char *name, size_t length)
{
	const uint8_t *at = (const uint8_t *)name;

	for (size_t i = 0; i < length; i++) {
		int following = bytes_after_first(at[i]);

		/* The end of the last character may have been cut off. */
		for (; following > 0 && i + 1 < length; following--) {
			if ((at[++i] & 0xc0) != 0x80)
				return false;
		}
		if (following < 0)
			return false;
	}
	return length > 0;
}

/* Returns the name of a primitive type in a descriptor (JVMS 4.3.2), or NULL. */
static const char *primitive(char type)
{
	switch (type) {
	case 'B':
		return "byte";
	case 'C':
		return "char";
	case 'D':
		return "double";
	case 'F':
		return "float";
	case 'I':
		return "int";
	case 'J':
		return "long";
	case 'S':
		return "short";
	case 'Z':
		return "boolean";
	default:
		return NULL;
	}
}

/* Returns the length of a class's name without the suffix of a hidden class: an address "+0x..." or
 * "/0x...", or a number "/123". */
static size_t visible_length(const char *name, size_t length)
{
	for (size_t i = length; i-- > 1;) {
		const bool is_hex = length - i > 3 && name[i + 1] == '0' && name[i + 2] == 'x';

		if (name[i] == '+')
			return is_hex ? i : length;
		if (name[i] == '/') {
			const bool is_number =
			    i + 1 < length && name[i + 1] >= '0' && name[i + 1] <= '9';

			return is_hex || is_number ? i : length;
		}
	}
	return length;
}

/* Writes the type whose descriptor starts at `from`. Returns the descriptor's length in bytes, 0 if
 * it is none. A class is written without its package. */
static size_t put_type(struct text *t, const char *from, size_t length)
{
	size_t dimensions = 0, used = 1;

	while (dimensions < length && dimensions < DIMENSIONS_MAX && from[dimensions] == '[')
		dimensions++;
	from += dimensions;
	length -= dimensions;
	if (!length)
		return 0;
	if (*from == 'L') {
		const char *end = memchr(from, ';', length), *name = from + 1;

		if (!end || end == name)
			return 0;
		used = (size_t)(end - from) + 1;
		const size_t visible = visible_length(name, (size_t)(end - name));
		size_t start = visible;

		while (start && name[start - 1] != '/' && name[start - 1] != '.')
			start--;
		put(t, name + start, visible - start);
	} else {
		const char *name = primitive(*from);

		if (!name)
			return 0;
		put(t, name, strlen(name));
	}
	for (size_t i = 0; i < dimensions; i++)
		put(t, "[]", 2);
	return dimensions + used;
}

size_t hotspot_parameters(const char *signature, size_t length, char *text, size_t size)
{
	struct text t = {.bytes = text, .size = size};
	size_t at = 1;

	if (!size)
		return 0;
	put(&t, "(", 1);
	while (length && signature[0] == '(' && at < length && signature[at] != ')') {
		if (at > 1)
			put(&t, ", ", 2);
		const size_t used = put_type(&t, signature + at, length - at);
		if (!used)
			break;
		at += used;
	}
	if (!length || signature[0] != '(' || at >= length || signature[at] != ')')
		return 0;
	put(&t, ")", 1);
	text[t.length] = 0;
	return t.length;
}

size_t hotspot_class_name(const char *name, size_t length, char *text, size_t size)
{
	struct text t = {.bytes = text, .size = size};

	if (!size)
		return 0;
	put(&t, name, visible_length(name, length));
	text[t.length] = 0;
	for (size_t i = 0; i < t.length; i++) {
		if (text[i] == '/')
			text[i] = '.';
	}
	return t.length;
}
