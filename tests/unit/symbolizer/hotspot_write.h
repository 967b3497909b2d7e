/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what HotSpot writes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static size_t write_unsigned5(uint8_t *to, uint32_t value, bool excluded)
{
	size_t n = 0;

	/* As UNSIGNED5::write_uint: bytes from 192 on go on. */
	for (; value >= 192u - excluded && n < 4; n++) {
		value -= 192u - excluded;
		to[n] = (uint8_t)(192 + (value & 63));
		value >>= 6;
	}
	to[n++] = (uint8_t)(value + excluded);
	return n;
}

static size_t write_scope(uint8_t *to, uint32_t sender, uint32_t method, int32_t bci, bool excluded)
{
	size_t n = write_unsigned5(to, sender, excluded);

	n += write_unsigned5(to + n, method, excluded);
	return n + write_unsigned5(to + n, (uint32_t)(bci + 1), excluded);
}
