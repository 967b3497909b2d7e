/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded reading of binary data. Parsers turn raw bytes into integers with a cursor.
 *
 * How this works. A cursor moves over a buffer that it does not own. The first read beyond the end
 * sets `failed`. From then on every read returns zero and does not move. So a caller reads a whole
 * structure and checks once, instead of after each field. All integers are little-endian.
 *
 * Each read must be a statement or a declarator of its own: C does not order two reads in one
 * initialiser list or argument list (tests/lint/evaluation_order.py finds them).
 *
 * Example: 5 bytes, 01 00 00 00 ff.
 *
 *	uint32_t version = cursor_u32(&c);   1
 *	uint16_t flags = cursor_u16(&c);     0, and c.failed is set: one byte is not enough
 *	uint8_t last = cursor_u8(&c);        0: a failed cursor stays failed
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
	/* Without a buffer the cursor is empty. Arithmetic on NULL is undefined, even with zero. */
	const uint8_t *p = data ? data : (const void *)"";

	return (struct cursor){.base = p, .at = p, .end = p + (data ? length : 0)};
}

/* Returns the number of bytes that remain; 0 if the cursor failed. */
static inline size_t cursor_left(const struct cursor *c)
{
	return c->failed ? 0 : (size_t)(c->end - c->at);
}

/* Returns the number of bytes from the start to the current position. */
static inline size_t cursor_offset(const struct cursor *c)
{
	return (size_t)(c->at - c->base);
}

/* Consumes the next `length` bytes and returns a pointer to them, or NULL (and fails) if there are
 * fewer. */
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

/* Moves to `offset` bytes from the start. Fails if that is beyond the end. */
static inline void cursor_seek(struct cursor *c, uint64_t offset)
{
	if (c->failed || offset > (uint64_t)(c->end - c->base)) {
		c->failed = true;
		return;
	}
	c->at = c->base + offset;
}

/* Consumes the next `length` bytes and returns a cursor over them, which has failed if there are
 * fewer. */
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

/* These two read four bytes at `at` for callers that have checked that they are there: an unsigned
 * number, and a displacement, which is signed and can be added to an address. */
static inline uint32_t cursor_u32_at(const uint8_t *at)
{
	struct cursor c = cursor_init(at, sizeof(uint32_t));

	return cursor_u32(&c);
}

static inline uint64_t cursor_displacement(const uint8_t *at)
{
	return (uint64_t)(int64_t)(int32_t)cursor_u32_at(at);
}

/* cursor_uleb128() of a number with any number of bytes. */
uint64_t cursor_uleb128_long(struct cursor *c);

/* Reads an unsigned LEB128 number (DWARF 5, 7.6). Fails if its value exceeds 64 bits. Most of them
 * have one byte. */
static inline uint64_t cursor_uleb128(struct cursor *c)
{
	if (!c->failed && c->at < c->end && *c->at < 0x80)
		return *c->at++;
	return cursor_uleb128_long(c);
}

/* Reads a signed LEB128 number (DWARF 5, 7.6). Fails if its value exceeds 64 bits. */
int64_t cursor_sleb128(struct cursor *c);

/* Consumes the next string with its NUL and returns it, or NULL (and fails) if there is no NUL. */
const char *cursor_string(struct cursor *c);

#endif
