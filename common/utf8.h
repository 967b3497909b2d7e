/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 (RFC 3629): the only decoder and encoder. Overlong forms, surrogates and code points above
 * U+10FFFF are invalid. Text from profiled processes may hold anything, so every caller also says
 * which valid characters it accepts.
 *
 * Example: "e\xcc\x81\x9b" is 'e', U+0301 and one invalid byte. utf8_length returns 1, 2 and 0 for
 * them, and utf8_copy writes "e", "\xcc\x81" and U+FFFD.
 */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	UTF8_BYTES_MAX = 4
};

/* U+FFFD, which stands for what cannot be shown. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Which characters a text may hold. Each class is a subset of the one before it. */
enum utf8_class {
	UTF8_ANY,	  /* every valid character */
	UTF8_TEXT,	  /* all but NUL */
	UTF8_NO_CONTROLS, /* nor C0 controls, DEL and C1 controls */
	UTF8_PRINTABLE,	  /* nor line separators, invisible characters, and those that change the
			     direction of a text, which make a name look like another one */
};

/* Decodes the character at `text`, of which `left` bytes remain. Returns its bytes, 1 to 4, or 0 if
 * there is no valid character; `*code_point` is set only if there is one. */
size_t utf8_decode(const char *text, size_t left, uint32_t *code_point);

/* Returns the bytes of the character at `text`, or 0 if it is invalid or not of the class. */
size_t utf8_length(const char *text, size_t left, enum utf8_class allowed);

/* Returns whether the whole text is valid and of the class. */
bool utf8_is_valid(const char *text, size_t length, enum utf8_class allowed);

/* Copies a text and replaces each byte that does not belong to an allowed character by U+FFFD. The
 * copy has at most `size` - 1 bytes, is cut at a whole character, and ends with NUL; `size` is not
 * 0. Returns the length of the copy. */
size_t utf8_copy(char *out, size_t size, const char *text, size_t length, enum utf8_class allowed);

/* Encodes a number below 2^21 in 1 to 4 bytes and returns how many. It does not refuse surrogates
 * and numbers above U+10FFFF, which a runtime's strings may hold: the result is then invalid, and
 * escaped like any other invalid text. */
size_t utf8_encode(uint32_t code_point, char out[UTF8_BYTES_MAX]);

#endif
