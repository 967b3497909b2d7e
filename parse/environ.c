/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/environ.h"

#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/*
 * Well-formed UTF-8 (RFC 3629, section 4) by its lead: how many bytes, and between what the second
 * lies; the others are 80..BF. Leads of one byte are left to the caller. The second byte's bounds
 * keep overlong forms and surrogates out, and of U+0080 on the controls (U+0080..U+009F).
 */
static const struct {
	uint8_t first, last, bytes, low, high;
} leads[] = {
    {0xc2, 0xc2, 2, 0xa0, 0xbf}, {0xc3, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

/* Bytes of the character at `s`; 0 if there is none that may be passed on. */
static size_t character_bytes(const uint8_t *s, size_t left)
{
	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		if (s[0] < leads[i].first || s[0] > leads[i].last)
			continue;
		if (leads[i].bytes > left || s[1] < leads[i].low || s[1] > leads[i].high)
			return 0;
		for (size_t j = 2; j < leads[i].bytes; j++) {
			if ((s[j] & 0xc0) != 0x80)
				return 0;
		}
		return leads[i].bytes;
	}
	return 0;
}

static void value_copy(char *value, const char *text, size_t length)
{
	size_t used = 0;

	for (size_t at = 0; at < length;) {
		const size_t n = character_bytes((const uint8_t *)text + at, length - at);
		const char *from = n ? text + at : REPLACEMENT;
		const size_t bytes = n ? n : strlen(REPLACEMENT);

		if (used + bytes > ENVIRON_VALUE_MAX)
			break;
		memcpy(value + used, from, bytes);
		used += bytes;
		at += n ? n : 1;
	}
	value[used] = 0;
}

static void entry_take(const char *entry, size_t length, struct environ_variable *variable)
{
	const size_t name_length = strlen(variable->name);

	if (variable->found || length <= name_length || entry[name_length] != '=' ||
	    memcmp(entry, variable->name, name_length))
		return;
	variable->found = true;
	value_copy(variable->value, entry + name_length + 1, length - name_length - 1);
}

void environ_find(const char *block, size_t length, struct environ_variable *variables,
		  unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		variables[i].found = false;
		variables[i].value[0] = 0;
	}
	while (length) {
		const char *end = memchr(block, 0, length);

		if (!end)
			return;
		const size_t n = (size_t)(end - block);
		for (unsigned int i = 0; i < count; i++)
			entry_take(block, n, &variables[i]);
		block = end + 1;
		length -= n + 1;
	}
}
