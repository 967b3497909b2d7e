/* SPDX-License-Identifier: Apache-2.0 */
/* Small text files that people write: read whole and bounded, before anything looks at them. */
#ifndef CLI_TEXT_INPUT_H
#define CLI_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct text_input {
	char *data; /* a NUL behind the end; may hold more of them */
	size_t length;
	const char *next;     /* of text_input_line */
	unsigned int line;    /* the one it returned last, from 1 */
	bool others_may_read; /* mode o+r */
};

/* `regular`: only a regular file (or a link to one), -ENOTSUP for anything else; otherwise a pipe
 * will do as well. 0; -EFBIG: longer than `max` bytes; -EISDIR; another negative errno. The caller
 * owns it: text_input_fini, which also wipes it. */
int text_input_read(const char *path, size_t max, bool regular, struct text_input *input);
void text_input_fini(struct text_input *input);

#define _cleanup_text_input_ __attribute__((cleanup(text_input_fini)))

/* The next line without white space around it (\r\n ends a line too), without a byte order mark
 * before the first. It is cut out in place. NULL after the last. `fault`, NULL without one: what
 * nobody writes on purpose (a NUL, a control character), and the line is then to be left alone. */
char *text_input_line(struct text_input *input, const char **fault);

/* Cut white space off both ends, in place. */
char *text_input_trim(char *text);

/* Valid UTF-8 (RFC 3629) without control characters. */
bool text_input_printable(const char *text);

#endif
