/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes numbers and scopes as HotSpot does, for tests. `zero_excluded`: as JDK 20 and later. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static size_t write_unsigned5(uint8_t *to, uint32_t value, bool zero_excluded)
{
	size_t n = 0;

	/* As UNSIGNED5::write_uint does: after a byte of 192 or more, another one follows. */
	for (; value >= 192u - zero_excluded && n < 4; n++) {
		value -= 192u - zero_excluded;
		to[n] = (uint8_t)(192 + (value & 63));
		value >>= 6;
	}
	to[n++] = (uint8_t)(value + zero_excluded);
	return n;
}

static size_t write_scope(uint8_t *to, uint32_t sender, uint32_t method, int32_t bci, bool zero_excluded)
{
	size_t n = write_unsigned5(to, sender, zero_excluded);

	n += write_unsigned5(to + n, method, zero_excluded);
	return n + write_unsigned5(to + n, (uint32_t)(bci + 1), zero_excluded);
}
