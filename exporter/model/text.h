/* SPDX-License-Identifier: Apache-2.0 */
/* Text that came from targets, made fit for what it is written into. */
#ifndef EXPORTER_MODEL_TEXT_H
#define EXPORTER_MODEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the UTF-8 character at `text` (1 to 4), or 0 if there is no valid one (RFC 3629: no
 * surrogates, no overlong forms). */
size_t text_utf8_length(const char *text, size_t left);

/* Whether all of it is UTF-8 and holds no NUL. */
bool text_is_clean(const char *text, size_t length);

/* Copy as UTF-8 with U+FFFD for each byte that is invalid or NUL. As much as fits whole;
 * NUL-terminated. The length. */
size_t text_clean(char *out, size_t size, const char *text, size_t length);

/* As a JSON string with its quotes (RFC 8259), invalid UTF-8 as U+FFFD. */
void text_write_json(FILE *out, const char *text, size_t length);

/* For a terminal: controls (C0, DEL, C1) and invalid bytes as \xNN, so that no name can drive it.
 */
void text_write_terminal(FILE *out, const char *text, size_t length);

/* a * b, or UINT64_MAX or `max` where that is less. */
uint64_t text_multiply(uint64_t a, uint64_t b, uint64_t max);

/* What became of all that was written to a stream: 0 or a negative errno. Flushes. */
int text_stream_result(FILE *out);

#endif
