/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads objects of V8's heap in the memory of a process: fields, types, small integers, strings.
 *
 * Everything may be forged, and objects may move between two reads. A read of a wrong object gives
 * a wrong type or a wrong identity, which the callers check. The number of steps is bounded here,
 * that of all reads by the budget of `memory`.
 */
#ifndef SYMBOLIZER_RUNTIME_V8_HEAP_H
#define SYMBOLIZER_RUNTIME_V8_HEAP_H

#include "symbolizer/runtime/v8_image.h"

enum {
	V8_MAPS_CACHED = 64, /* a power of two */
};

struct v8_heap {
	const struct v8_image *image;
	struct memory *memory;
	/* The types of maps that were read. The maps of the types of which we read objects are in
	 * read-only memory and never change. */
	struct {
		uint64_t map;
		uint16_t type;
	} maps[V8_MAPS_CACHED];
};

/* Characters of a string in one piece. */
struct v8_flat {
	uint64_t address; /* of the first one */
	uint32_t length;  /* in characters */
	bool wide;	  /* of two bytes each */
};

static inline uint32_t v8_constant(const struct v8_heap *heap, enum v8_constant name)
{
	return heap->image->constants[name];
}

/* Reads the word at `offset` of a tagged object. 0, -EFAULT if it is no object, or an error of
 * memory_read(). */
int v8_heap_word(const struct v8_heap *heap, uint64_t object, uint32_t offset, uint64_t *value);

/* Reads a small integer. -ESTALE if it is none. */
int v8_heap_small(const struct v8_heap *heap, uint64_t object, uint32_t offset, int32_t *value);

/* Reads the type of an object: its InstanceType. */
int v8_heap_type(struct v8_heap *heap, uint64_t object, uint16_t *type);

/* Checks that an object has the type. 0; -ESTALE if it has not. */
int v8_heap_check(struct v8_heap *heap, uint64_t object, enum v8_constant type);

/* Reads the object at `offset` of another one. -ESTALE if it is not one of the type. */
int v8_heap_object(struct v8_heap *heap, uint64_t object, uint32_t offset, enum v8_constant type,
		   uint64_t *value);

/* Reads the length of a FixedArray, ByteArray or one of their relatives, and copies its contents,
 * if they have at most `max` units of `unit` bytes. The caller frees them. -E2BIG, -ENOMEM. */
int v8_heap_array(const struct v8_heap *heap, uint64_t array, size_t unit, size_t max,
		  uint8_t **bytes, size_t *length);

/* Whether a type is that of a string. */
bool v8_heap_is_string(uint16_t type);

/* Finds the characters of a string that is in one piece: sequential or external, maybe through
 * thin, sliced and flattened ones. -ESTALE if it is no string, -ENOTSUP if it is not in one
 * piece. */
int v8_heap_flat(struct v8_heap *heap, uint64_t string, struct v8_flat *flat);

/* Writes a string of any representation to `text` as UTF-8, cut at `size` - 1 bytes. */
int v8_heap_text(struct v8_heap *heap, uint64_t string, char *text, size_t size);

/* Writes a part of a string in one piece as UTF-8. -ESTALE if it does not have that part. */
int v8_heap_slice(const struct v8_heap *heap, const struct v8_flat *flat, uint32_t start,
		  uint32_t length, char *text, size_t size);

#endif
