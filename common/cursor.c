/* SPDX-License-Identifier: Apache-2.0 */
#include "common/cursor.h"

uint64_t cursor_uleb128_long(struct cursor *c)
{
	uint64_t value = 0;

	for (unsigned int shift = 0;; shift += 7) {
		uint8_t byte = cursor_u8(c);

		if (c->failed)
			return 0;
		uint64_t bits = byte & 0x7f;
		if (shift >= 64 ? bits != 0 : (shift == 63 && bits > 1)) {
			c->failed = true;
			return 0;
		}
		if (shift < 64)
			value |= bits << shift;
		if (!(byte & 0x80))
			return value;
	}
}

int64_t cursor_sleb128(struct cursor *c)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(c);
		if (c->failed)
			return 0;
		if (shift >= 64) {
			/* Bytes beyond the 64th bit may only repeat the sign. */
			uint8_t sign = (int64_t)value < 0 ? 0x7f : 0;
			if ((byte & 0x7f) != sign) {
				c->failed = true;
				return 0;
			}
		} else {
			/* Only one bit of the tenth byte fits; the others must repeat it. */
			if (shift == 63 && (byte & 0x7f) != 0 && (byte & 0x7f) != 0x7f) {
				c->failed = true;
				return 0;
			}
			value |= (uint64_t)(byte & 0x7f) << shift;
		}
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		value |= ~0ull << shift;
	return (int64_t)value;
}

const char *cursor_string(struct cursor *c)
{
	const uint8_t *nul = c->failed ? NULL : memchr(c->at, 0, (size_t)(c->end - c->at));

	if (!nul) {
		c->failed = true;
		return NULL;
	}
	const char *s = (const char *)c->at;
	c->at = nul + 1;
	return s;
}
