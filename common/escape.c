/* SPDX-License-Identifier: Apache-2.0 */
#include "common/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/utf8.h"

enum {
	HEX_BYTES = 4 /* "\xNN" */
};

static const char hex_digits[] = "0123456789abcdef";

/* Returns the length of the character if it may be copied, or 0 if its first byte must be
 * escaped. */
static size_t escape_kept_length(const char *text, size_t left, enum escape_keep keep)
{
	if (text[0] >= 0x20 && text[0] < 0x7f)
		return 1; /* nearly every byte */
	return keep == ESCAPE_KEEP_PRINTABLE ? utf8_length(text, left, UTF8_PRINTABLE) : 0;
}

static void escape_hex(char byte, char out[HEX_BYTES])
{
	out[0] = '\\';
	out[1] = 'x';
	out[2] = hex_digits[(uint8_t)byte >> 4];
	out[3] = hex_digits[byte & 15];
}

size_t escape_text(char *out, size_t size, const char *text, size_t length, enum escape_keep keep,
		   size_t *taken)
{
	size_t at = 0, used = 0;

	while (at < length) {
		const size_t kept = escape_kept_length(text + at, length - at, keep);
		const size_t bytes = kept ? kept : HEX_BYTES;

		if (used + bytes >= size)
			break;
		if (kept == 1)
			out[used] = text[at];
		else if (kept)
			memcpy(out + used, text + at, kept);
		else
			escape_hex(text[at], out + used);
		used += bytes;
		at += kept ? kept : 1;
	}
	if (size)
		out[used] = '\0';
	if (taken)
		*taken = at;
	return used;
}

void escape_write_text(FILE *out, const char *text, size_t length, enum escape_keep keep)
{
	for (size_t at = 0; at < length;) {
		const size_t kept = escape_kept_length(text + at, length - at, keep);
		char hex[HEX_BYTES];

		if (kept) {
			fwrite(text + at, 1, kept, out);
		} else {
			escape_hex(text[at], hex);
			fwrite(hex, 1, sizeof(hex), out);
		}
		at += kept ? kept : 1;
	}
}

static bool escape_json_is_plain(uint32_t code_point, enum escape_json where)
{
	if (code_point < 0x20 || code_point == 0x7f || code_point == '"' || code_point == '\\')
		return false;
	if (where == ESCAPE_JSON)
		return true;
	return code_point != '<' && code_point != '>' && code_point != '&' && code_point != '\'' &&
	       code_point != 0x2028 && code_point != 0x2029;
}

size_t escape_json_plain_length(const char *text, size_t left, enum escape_json where)
{
	size_t length = 0;

	while (length < left && (uint8_t)text[length] < 0x80 &&
	       escape_json_is_plain((uint8_t)text[length], where))
		length++;
	return length;
}

size_t escape_json_character(const char *text, size_t left, enum escape_json where,
			     char out[ESCAPE_JSON_BYTES_MAX], size_t *used)
{
	uint32_t code_point = 0xfffd;
	const size_t bytes = utf8_decode(text, left, &code_point);

	if (bytes && escape_json_is_plain(code_point, where)) {
		memcpy(out, text, bytes);
		*used = bytes;
		return bytes;
	}
	if (where == ESCAPE_JSON && (code_point == '"' || code_point == '\\')) {
		out[0] = '\\';
		out[1] = (char)code_point;
		*used = 2;
		return 1;
	}
	/* Every character that is not plain lies below U+10000. */
	out[0] = '\\';
	out[1] = 'u';
	for (int i = 0; i < 4; i++)
		out[2 + i] = hex_digits[code_point >> (12 - 4 * i) & 15];
	*used = ESCAPE_JSON_BYTES_MAX;
	return bytes ? bytes : 1;
}

void escape_write_json(FILE *out, const char *text, size_t length, enum escape_json where)
{
	char escaped[ESCAPE_JSON_BYTES_MAX];
	size_t used;

	putc('"', out);
	for (size_t at = 0; at < length;) {
		const size_t plain = escape_json_plain_length(text + at, length - at, where);
		if (plain) {
			fwrite(text + at, 1, plain, out);
			at += plain;
			continue;
		}
		at += escape_json_character(text + at, length - at, where, escaped, &used);
		fwrite(escaped, 1, used, out);
	}
	putc('"', out);
}
