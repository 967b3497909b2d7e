/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"

#include <string.h>

/* Returns the length of a character by its first byte; 0 if no character starts with it. 0xc0, 0xc1
 * and bytes above 0xf4 could only start overlong forms and code points that do not exist. */
static size_t utf8_length_by_lead(uint8_t lead)
{
	return lead < 0x80   ? 1
	       : lead < 0xc2 ? 0
	       : lead < 0xe0 ? 2
	       : lead < 0xf0 ? 3
	       : lead < 0xf5 ? 4
			     : 0;
}

size_t utf8_decode(const char *text, size_t left, uint32_t *code_point)
{
	/* The smallest code point that needs this many bytes. */
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const uint8_t *s = (const uint8_t *)text;
	const size_t length = left ? utf8_length_by_lead(s[0]) : 0;

	if (!length || length > left)
		return 0;
	uint32_t value = length > 1 ? s[0] & (0x7fu >> length) : s[0];
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (s[i] & 0x3f);
	}
	if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
		return 0;
	*code_point = value;
	return length;
}

/* Returns whether a character is invisible: in Unicode 15 the general categories Zl and Zp, and the
 * format characters that have no shape of their own. They are joiners and direction marks, line and
 * paragraph separator, embeddings and overrides, isolates, and the byte order mark. */
static bool utf8_is_invisible(uint32_t code_point)
{
	return (code_point >= 0x200b && code_point <= 0x200f) ||
	       (code_point >= 0x2028 && code_point <= 0x202e) ||
	       (code_point >= 0x2060 && code_point <= 0x206f) || code_point == 0xfeff;
}

static bool utf8_is_of_class(uint32_t code_point, enum utf8_class allowed)
{
	if (allowed >= UTF8_TEXT && !code_point)
		return false;
	if (allowed >= UTF8_NO_CONTROLS &&
	    (code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0)))
		return false;
	return allowed < UTF8_PRINTABLE || !utf8_is_invisible(code_point);
}

size_t utf8_length(const char *text, size_t left, enum utf8_class allowed)
{
	uint32_t code_point;
	const size_t length = utf8_decode(text, left, &code_point);

	return length && utf8_is_of_class(code_point, allowed) ? length : 0;
}

/* Returns whether the byte is printable ASCII, which is of every class. */
static bool utf8_byte_is_plain(char byte)
{
	return byte >= 0x20 && byte < 0x7f;
}

/* Returns whether each of the next 8 bytes is printable ASCII, as nearly always. The subtraction
 * borrows into the top bit of a byte below 0x20, and the addition carries into that of 0x7f. */
static bool utf8_next_8_are_plain(const char *text, size_t left)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t bytes;

	if (left < sizeof(bytes))
		return false;
	memcpy(&bytes, text, sizeof(bytes));
	return !((bytes | (bytes - 0x20 * ones) | (bytes + ones)) & ones << 7);
}

bool utf8_is_valid(const char *text, size_t length, enum utf8_class allowed)
{
	for (size_t at = 0; at < length;) {
		if (utf8_next_8_are_plain(text + at, length - at)) {
			at += sizeof(uint64_t);
			continue;
		}
		if (utf8_byte_is_plain(text[at])) {
			at++;
			continue;
		}
		const size_t bytes = utf8_length(text + at, length - at, allowed);
		if (!bytes)
			return false;
		at += bytes;
	}
	return true;
}

size_t utf8_copy(char *out, size_t size, const char *text, size_t length, enum utf8_class allowed)
{
	size_t used = 0;

	for (size_t at = 0; at < length;) {
		const size_t valid = utf8_length(text + at, length - at, allowed);
		const char *from = valid ? text + at : UTF8_REPLACEMENT;
		const size_t bytes = valid ? valid : strlen(UTF8_REPLACEMENT);

		if (bytes >= size - used)
			break;
		memcpy(out + used, from, bytes);
		used += bytes;
		at += valid ? valid : 1;
	}
	out[used] = '\0';
	return used;
}

size_t utf8_encode(uint32_t code_point, char out[UTF8_BYTES_MAX])
{
	const size_t length = code_point < 0x80	     ? 1
			      : code_point < 0x800   ? 2
			      : code_point < 0x10000 ? 3
						     : 4;

	if (length == 1) {
		out[0] = (char)code_point;
		return 1;
	}
	for (size_t i = length - 1; i > 0; i--) {
		out[i] = (char)(0x80 | (code_point & 0x3f));
		code_point >>= 6;
	}
	/* The first byte starts with as many ones as the character has bytes. */
	out[0] = (char)((0xf00u >> length & 0xff) | (code_point & (0x7fu >> length)));
	return length;
}
