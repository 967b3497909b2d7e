/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escapes: how text from profiled processes and peers becomes safe for a log line, a terminal or a
 * JSON document. A name may hold control sequences that drive a terminal, or quotes that end a
 * JSON string.
 *
 * Example: the name "a\n\xc3\xa9\xff" becomes
 *     a\x0a\xc3\xa9\xff      with ESCAPE_KEEP_ASCII, for the log,
 *     a\x0a(e acute)\xff     with ESCAPE_KEEP_PRINTABLE, for a terminal,
 *     "a\u000a(e acute)(U+FFFD)"  as a JSON string.
 */
#ifndef COMMON_ESCAPE_H
#define COMMON_ESCAPE_H

#include <stddef.h>
#include <stdio.h>

/* Which characters are copied as they are. Every other byte becomes \xNN. */
enum escape_keep {
	ESCAPE_KEEP_ASCII,     /* 0x20 to 0x7e */
	ESCAPE_KEEP_PRINTABLE, /* valid UTF-8 of class UTF8_PRINTABLE */
};

/* Copies `text` into `out` with escapes. The copy has at most `size` - 1 bytes, is cut at
 * a whole character or escape, and ends with NUL; nothing is written if `size` is 0.
 * Returns its length. `*taken`, unless NULL, is how many bytes of the text went in: fewer
 * than `length` if it was cut. */
size_t escape_text(char *out, size_t size, const char *text, size_t length, enum escape_keep keep,
		   size_t *taken);

/* Writes a text to a stream with the same escapes, uncut. */
void escape_write_text(FILE *out, const char *text, size_t length, enum escape_keep keep);

/* Where a JSON string will stand. */
enum escape_json {
	ESCAPE_JSON,	     /* in a JSON document (RFC 8259) */
	ESCAPE_JSON_IN_HTML, /* also inert inside a <script> element: '<', '>', '&' and quotes are
				\uNNNN as well, and so are U+2028 and U+2029 */
};

enum {
	ESCAPE_JSON_BYTES_MAX = 6 /* "\uNNNN" */
};

/* Returns how many bytes at the beginning of `text` are ASCII and stand for themselves: they can be
 * copied at once. 0 means that escape_json_character() is needed. */
size_t escape_json_plain_length(const char *text, size_t left, enum escape_json where);

/* Writes the character at `text` (`left` is not 0) as it stands inside a JSON string, and how many
 * bytes that are into `*used`. An invalid byte becomes U+FFFD. Returns how many bytes of the text
 * were taken. */
size_t escape_json_character(const char *text, size_t left, enum escape_json where,
			     char out[ESCAPE_JSON_BYTES_MAX], size_t *used);

/* Writes a text as a JSON string with its quotes. */
void escape_write_json(FILE *out, const char *text, size_t length, enum escape_json where);

#endif
