/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/text.h"

#include <errno.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

size_t text_utf8_length(const char *text, size_t left)
{
	const uint8_t *s = (const uint8_t *)text;
	uint32_t lead, low, character;
	size_t length;

	if (!left)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc0 && s[0] < 0xe0) {
		length = 2;
		lead = s[0] & 0x1f;
		low = 0x80;
	} else if (s[0] >= 0xe0 && s[0] < 0xf0) {
		length = 3;
		lead = s[0] & 0x0f;
		low = 0x800;
	} else if (s[0] >= 0xf0 && s[0] < 0xf8) {
		length = 4;
		lead = s[0] & 0x07;
		low = 0x10000;
	} else {
		return 0;
	}
	if (length > left)
		return 0;
	character = lead;
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (s[i] & 0x3f);
	}
	bool surrogate = character >= 0xd800 && character < 0xe000;
	return character < low || character > 0x10ffff || surrogate ? 0 : length;
}

/* Whether each of the next 8 bytes is ASCII and none is NUL, as nearly all are. */
static bool next_8_are_plain(const char *text, size_t left)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t bytes;

	if (left < sizeof(bytes))
		return false;
	memcpy(&bytes, text, sizeof(bytes));
	return !((bytes | (bytes - ones)) & ones << 7);
}

bool text_is_clean(const char *text, size_t length)
{
	for (size_t at = 0; at < length;) {
		if (next_8_are_plain(text + at, length - at)) {
			at += sizeof(uint64_t);
			continue;
		}
		size_t n = text_utf8_length(text + at, length - at);
		if (!n || !text[at])
			return false;
		at += n;
	}
	return true;
}

size_t text_clean(char *out, size_t size, const char *text, size_t length)
{
	size_t used = 0;

	for (size_t at = 0; at < length;) {
		size_t n = text_utf8_length(text + at, length - at);
		bool valid = n && text[at];
		size_t bytes = valid ? n : strlen(REPLACEMENT);
		if (bytes >= size - used)
			break;
		memcpy(out + used, valid ? text + at : REPLACEMENT, bytes);
		used += bytes;
		at += n ? n : 1;
	}
	out[used] = '\0';
	return used;
}

void text_write_json(FILE *out, const char *text, size_t length)
{
	putc('"', out);
	for (size_t at = 0; at < length;) {
		size_t n = text_utf8_length(text + at, length - at);
		uint8_t c = (uint8_t)text[at];
		if (!n)
			fputs(REPLACEMENT, out);
		else if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fwrite(text + at, 1, n, out);
		at += n ? n : 1;
	}
	putc('"', out);
}

void text_write_terminal(FILE *out, const char *text, size_t length)
{
	for (size_t at = 0; at < length;) {
		size_t n = text_utf8_length(text + at, length - at);
		uint8_t c = (uint8_t)text[at];
		bool c1 = n == 2 && c == 0xc2 && (uint8_t)text[at + 1] < 0xa0;
		if (!n || c < 0x20 || c == 0x7f) {
			fprintf(out, "\\x%02x", c);
			n = 1;
		} else if (c1) {
			fprintf(out, "\\x%02x", (uint8_t)text[at + 1]);
		} else {
			fwrite(text + at, 1, n, out);
		}
		at += n;
	}
}

uint64_t text_multiply(uint64_t a, uint64_t b, uint64_t max)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) || product > max ? max : product;
}

int text_stream_result(FILE *out)
{
	errno = 0;
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
