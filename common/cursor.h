/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers turn raw bytes into integers with a cursor. It runs over a buffer that it does not own.
 * The first read past the end sets `failed`, which stays set; every later read returns 0 without
 * moving. So callers read a whole structure and check once. All integers are little-endian.
 */
#ifndef COMMON_CURSOR_H
#define COMMON_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *base; /* first byte, for offsets */
	const uint8_t *at;
	const uint8_t *end; /* one past the last byte */
	bool failed;
};

static inline struct cursor cursor_init(const void *data, size_t length)
{
	/* No buffer is an empty one: arithmetic on NULL is undefined, be it with zero. */
	const uint8_t *p = data ? data : (const void *)"";

	return (struct cursor){.base = p, .at = p, .end = p + (data ? length : 0)};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return c->failed ? 0 : (size_t)(c->end - c->at);
}

/* Bytes consumed so far. */
static inline size_t cursor_offset(const struct cursor *c)
{
	return (size_t)(c->at - c->base);
}

/* A pointer to the next `length` bytes, which are consumed; NULL (and failed) if there are fewer.
 */
static inline const uint8_t *cursor_take(struct cursor *c, uint64_t length)
{
	if (c->failed || length > (uint64_t)(c->end - c->at)) {
		c->failed = true;
		return NULL;
	}
	const uint8_t *p = c->at;
	c->at += length;
	return p;
}

static inline void cursor_skip(struct cursor *c, uint64_t length)
{
	cursor_take(c, length);
}

/* Move to `offset` bytes from the start; failed if that is past the end. */
static inline void cursor_seek(struct cursor *c, uint64_t offset)
{
	if (c->failed || offset > (uint64_t)(c->end - c->base)) {
		c->failed = true;
		return;
	}
	c->at = c->base + offset;
}

/* The next `length` bytes as a cursor of their own; an empty failed one if there are fewer. */
static inline struct cursor cursor_sub(struct cursor *c, uint64_t length)
{
	const uint8_t *p = cursor_take(c, length);
	struct cursor sub = {.base = p, .at = p, .end = p ? p + length : p, .failed = !p};

	return sub;
}

#define CURSOR_DEFINE_READ(bits)                                                                   \
	static inline uint##bits##_t cursor_u##bits(struct cursor *c)                              \
	{                                                                                          \
		uint##bits##_t value = 0;                                                          \
		const uint8_t *p = cursor_take(c, sizeof(value));                                  \
		if (p)                                                                             \
			memcpy(&value, p, sizeof(value));                                          \
		return value;                                                                      \
	}
CURSOR_DEFINE_READ(8)
CURSOR_DEFINE_READ(16)
CURSOR_DEFINE_READ(32)
CURSOR_DEFINE_READ(64)
#undef CURSOR_DEFINE_READ

/* ULEB128 (DWARF 5, 7.6); more than 64 bits of value is a failure. */
uint64_t cursor_uleb128(struct cursor *c);

/* SLEB128 (DWARF 5, 7.6); more than 64 bits of value is a failure. */
int64_t cursor_sleb128(struct cursor *c);

/* The next NUL-terminated string, its terminator consumed; NULL (and failed) if there is no NUL. */
const char *cursor_string(struct cursor *c);

#endif
