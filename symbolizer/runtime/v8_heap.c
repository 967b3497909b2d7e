/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A tagged word is a small integer (lowest bit 0, the value in the upper half) or
 * the address of an object plus 1. The first word of an object is its Map, which has the type.
 *
 * A string has a length at offset 12, and one of these representations (src/objects/string.tq; the
 * offsets are the same in V8 11.3 to 14.6, v8dbg_class_*String*):
 *
 *	sequential	the characters from offset 16 on, of one or two bytes
 *	cons		two strings, at 16 and 24; the second is empty once it was flattened
 *	sliced		a string at 16, and where in it the slice begins, at 24
 *	thin		another string at 16, which is the same and unique
 *	external	a resource of the embedder at 16, the address of its characters at 24
 *
 * Example: a path that the program has put together is the cons string of "/srv/" and "app.js".
 * After its use as a key it is a thin string, whose actual string is sequential.
 */
#include "symbolizer/runtime/v8_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/v8.h"

enum {
	MAP_TYPE = 12, /* v8dbg_class_Map__instance_type__uint16_t */
	ARRAY_LENGTH = 8,
	ARRAY_DATA = 16,
	STRING_LENGTH = 12,
	STRING_CHARS = 16,
	STRING_FIRST = 16, /* also: parent, actual, resource */
	STRING_SECOND = 24,
	STRING_OFFSET = 24,
	STRING_RESOURCE_DATA = 24,
	/* Bits of the type of a string: src/objects/instance-type.h, v8dbg_*StringTag. */
	STRING_TYPES_END = 128,
	STRING_REPRESENTATION = 7,
	STRING_SEQUENTIAL = 0,
	STRING_CONS = 1,
	STRING_EXTERNAL = 2,
	STRING_SLICED = 3,
	STRING_THIN = 5,
	STRING_ONE_BYTE = 8,
	STRING_UNCACHED = 16, /* external: the address of the characters is not in the string */
	/* Steps from a string to its characters. A slice of a slice does not occur, nor a thin
	 * string of a thin one; a cons string may be of any depth. */
	STRING_STEPS_MAX = 8,
	STRING_PARTS_MAX = 64, /* pieces of a cons string that are read */
	PIECE_CHARACTERS = 128,
};

int v8_heap_word(const struct v8_heap *heap, uint64_t object, uint32_t offset, uint64_t *value)
{
	if ((object & V8_TAG_MASK) != V8_TAG)
		return -EFAULT;
	return memory_read_u64(heap->memory, object - V8_TAG + offset, value);
}

int v8_heap_small(const struct v8_heap *heap, uint64_t object, uint32_t offset, int32_t *value)
{
	uint64_t word;
	int r = v8_heap_word(heap, object, offset, &word);

	if (r < 0)
		return r;
	if ((uint32_t)word)
		return -ESTALE;
	*value = (int32_t)(word >> V8_SMI_SHIFT);
	return 0;
}

int v8_heap_type(struct v8_heap *heap, uint64_t object, uint16_t *type)
{
	uint64_t map;
	int r = v8_heap_word(heap, object, 0, &map);

	if (r < 0)
		return r;
	const size_t at = (size_t)(map >> 3) & (V8_MAPS_CACHED - 1);
	if (heap->maps[at].map != map) {
		uint16_t found;

		if ((map & V8_TAG_MASK) != V8_TAG)
			return -ESTALE;
		r = memory_read_u16(heap->memory, map - V8_TAG + MAP_TYPE, &found);
		if (r < 0)
			return r;
		heap->maps[at].map = map;
		heap->maps[at].type = found;
	}
	*type = heap->maps[at].type;
	return 0;
}

int v8_heap_check(struct v8_heap *heap, uint64_t object, enum v8_constant type)
{
	uint16_t found;
	int r = v8_heap_type(heap, object, &found);

	return r < 0 ? r : found == v8_constant(heap, type) ? 0 : -ESTALE;
}

int v8_heap_object(struct v8_heap *heap, uint64_t object, uint32_t offset, enum v8_constant type,
		   uint64_t *value)
{
	uint64_t found;
	int r = v8_heap_word(heap, object, offset, &found);

	if (r == 0)
		r = v8_heap_check(heap, found, type);
	if (r == 0)
		*value = found;
	return r;
}

int v8_heap_array(const struct v8_heap *heap, uint64_t array, size_t unit, size_t max,
		  uint8_t **bytes, size_t *length)
{
	int32_t count;
	int r = v8_heap_small(heap, array, ARRAY_LENGTH, &count);

	if (r < 0)
		return r;
	if (count < 0 || (size_t)count > max)
		return -E2BIG;
	const size_t size = (size_t)count * unit;
	uint8_t *copy = malloc(size + 1);
	if (!copy)
		return -ENOMEM;
	r = size ? memory_read(heap->memory, array - V8_TAG + ARRAY_DATA, copy, size) : 0;
	if (r < 0) {
		free(copy);
		return r;
	}
	*bytes = copy;
	*length = (size_t)count;
	return 0;
}

bool v8_heap_is_string(uint16_t type)
{
	return type < STRING_TYPES_END;
}

/* Reads type and length of a string. -ESTALE if it is none. */
static int string_head(struct v8_heap *heap, uint64_t string, uint16_t *type, uint32_t *length)
{
	int r = v8_heap_type(heap, string, type);

	if (r == 0)
		r = v8_heap_is_string(*type) ? 0 : -ESTALE;
	return r == 0 ? memory_read_u32(heap->memory, string - V8_TAG + STRING_LENGTH, length) : r;
}

/* Goes from a string that refers to one other string to that one. `*start` is where in it the
 * characters begin. -ENOTSUP for a cons string of two parts. */
static int string_follow(struct v8_heap *heap, uint64_t *string, uint16_t type, uint32_t *start)
{
	const uint16_t representation = type & STRING_REPRESENTATION;
	uint64_t second;
	uint32_t length = 0;
	int32_t offset = 0;
	int r = 0;

	if (representation == STRING_CONS) {
		r = v8_heap_word(heap, *string, STRING_SECOND, &second);
		if (r == 0)
			r = string_head(heap, second, &type, &length);
		if (r == 0 && length)
			r = -ENOTSUP;
	} else if (representation == STRING_SLICED) {
		r = v8_heap_small(heap, *string, STRING_OFFSET, &offset);
		if (r == 0 && (offset < 0 || (uint32_t)offset > UINT32_MAX - *start))
			r = -ESTALE;
		*start += (uint32_t)offset;
	} else if (representation != STRING_THIN) {
		r = -ESTALE;
	}
	return r < 0 ? r : v8_heap_word(heap, *string, STRING_FIRST, string);
}

int v8_heap_flat(struct v8_heap *heap, uint64_t string, struct v8_flat *flat)
{
	uint32_t wanted = 0, start = 0;

	for (int i = 0; i < STRING_STEPS_MAX; i++) {
		uint32_t length;
		uint16_t type;
		int r = string_head(heap, string, &type, &length);

		if (r < 0)
			return r;
		const uint16_t representation = type & STRING_REPRESENTATION;
		if (i == 0)
			wanted = length;
		if (representation != STRING_SEQUENTIAL && representation != STRING_EXTERNAL) {
			r = string_follow(heap, &string, type, &start);
			if (r < 0)
				return r;
			continue;
		}
		if (start > length || wanted > length - start)
			return -ESTALE;
		flat->wide = !(type & STRING_ONE_BYTE);
		flat->length = wanted;
		flat->address = string - V8_TAG + STRING_CHARS;
		if (representation == STRING_EXTERNAL) {
			if (type & STRING_UNCACHED)
				return -ENOTSUP;
			r = v8_heap_word(heap, string, STRING_RESOURCE_DATA, &flat->address);
			if (r < 0)
				return r;
		}
		flat->address += (uint64_t)start << flat->wide;
		return 0;
	}
	return -ESTALE;
}

/* Appends a character as UTF-8. Returns false if there is no room. Halves of a pair of UTF-16 are
 * combined by the caller. */
static bool append(char *text, size_t size, size_t *used, uint32_t c)
{
	char bytes[4];
	size_t n = 0;

	if (c < 0x80) {
		bytes[n++] = (char)c;
	} else if (c < 0x800) {
		bytes[n++] = (char)(0xc0 | c >> 6);
		bytes[n++] = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		bytes[n++] = (char)(0xe0 | c >> 12);
		bytes[n++] = (char)(0x80 | (c >> 6 & 63));
		bytes[n++] = (char)(0x80 | (c & 63));
	} else {
		bytes[n++] = (char)(0xf0 | c >> 18);
		bytes[n++] = (char)(0x80 | (c >> 12 & 63));
		bytes[n++] = (char)(0x80 | (c >> 6 & 63));
		bytes[n++] = (char)(0x80 | (c & 63));
	}
	if (n >= size - *used)
		return false;
	memcpy(text + *used, bytes, n);
	*used += n;
	return true;
}

/* Appends characters as UTF-8, as far as there is room. */
static int append_flat(const struct v8_heap *heap, const struct v8_flat *flat, char *text,
		       size_t size, size_t *used)
{
	uint32_t high = 0;

	for (uint32_t done = 0; done < flat->length && *used + 1 < size;) {
		uint16_t wide[PIECE_CHARACTERS];
		uint8_t narrow[PIECE_CHARACTERS];
		const uint32_t left = flat->length - done;
		const uint32_t n = left < PIECE_CHARACTERS ? left : PIECE_CHARACTERS;
		int r = memory_read(heap->memory, flat->address + ((uint64_t)done << flat->wide),
				    flat->wide ? (void *)wide : narrow, (size_t)n << flat->wide);

		if (r < 0)
			return r;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t c = flat->wide ? wide[i] : narrow[i];

			if (c >= 0xd800 && c < 0xdc00) {
				high = c;
				continue;
			}
			if (c >= 0xdc00 && c < 0xe000)
				c = high ? 0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00) : '?';
			high = 0;
			if (!append(text, size, used, c ? c : '?'))
				return 0;
		}
		done += n;
	}
	return 0;
}

int v8_heap_text(struct v8_heap *heap, uint64_t string, char *text, size_t size)
{
	uint64_t waiting[STRING_STEPS_MAX]; /* second parts of cons strings */
	unsigned int count = 0;
	size_t used = 0;

	waiting[count++] = string;
	for (int parts = 0; count && parts < STRING_PARTS_MAX && used + 1 < size; parts++) {
		struct v8_flat flat;

		string = waiting[--count];
		int r = v8_heap_flat(heap, string, &flat);
		if (r == 0)
			r = append_flat(heap, &flat, text, size, &used);
		else if (r == -ENOTSUP && count + 2 <= STRING_STEPS_MAX) {
			r = v8_heap_word(heap, string, STRING_SECOND, &waiting[count]);
			if (r == 0)
				r = v8_heap_word(heap, string, STRING_FIRST, &waiting[count + 1]);
			count += 2;
		}
		if (r < 0)
			return r;
	}
	text[used] = 0;
	return 0;
}

int v8_heap_slice(const struct v8_heap *heap, const struct v8_flat *flat, uint32_t start,
		  uint32_t length, char *text, size_t size)
{
	struct v8_flat part = *flat;
	size_t used = 0;

	if (start > flat->length || length > flat->length - start)
		return -ESTALE;
	part.address += (uint64_t)start << flat->wide;
	part.length = length;
	int r = append_flat(heap, &part, text, size, &used);
	text[used] = 0;
	return r;
}
