/* SPDX-License-Identifier: Apache-2.0 */
/* Small text files, read completely and with a size limit before they are parsed. */
#ifndef CONFIG_TEXT_INPUT_H
#define CONFIG_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct text_input {
	char *data; /* followed by a NUL; may contain further ones */
	size_t length;
	const char *next;     /* where text_input_line() goes on */
	unsigned int line;    /* the line that it returned last, from 1 */
	bool others_may_read; /* the mode has o+r */
};

/* Reads the text of a file. `regular`: only a regular file or a link to one, -ENOTSUP for anything
 * else; otherwise a pipe is accepted too. Returns 0; -EFBIG for more than `max` bytes; -EISDIR; or
 * another negative errno. The caller owns `input`: text_input_fini() frees and wipes it. */
int text_input_read(const char *path, size_t max, bool regular, struct text_input *input);
void text_input_fini(struct text_input *input);

#define _cleanup_text_input_ __attribute__((cleanup(text_input_fini)))

/* Returns the next line without white space around it and without a byte order mark, NULL after the
 * last one. Lines end with \n or \r\n. The text is changed in place. `fault` is NULL, or names what
 * the line must not contain (a NUL, a control character); then the line must not be used. */
char *text_input_line(struct text_input *input, const char **fault);

/* Removes white space at both ends, in place. */
char *text_input_trim(char *text);

/* Returns whether the text is valid UTF-8 (RFC 3629) without control characters (C0, DEL and
 * C1). */
bool text_input_printable(const char *text);

#endif
