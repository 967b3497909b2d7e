/* SPDX-License-Identifier: Apache-2.0 */
/* How `bulkhead doctor` and `bulkhead audit` print the results of their checks, as text and JSON.
 * What was found may hold bytes of anybody, so all texts are escaped. */
#ifndef CLI_CHECK_PRINT_H
#define CLI_CHECK_PRINT_H

#include <stdio.h>

/* Writes a text with escapes for a terminal. */
void check_print_text(const char *text, FILE *out);

/* Writes one result: the status, the name of the check, and what was found. On a second line
 * follows `after`, unless it is "", after an arrow. The name is padded to `name_width` columns. */
void check_print_row(const char *status, const char *name, int name_width, const char *found,
		     const char *after, FILE *out);

/* Writes a further member of a JSON object. */
void check_print_json_member(FILE *out, const char *key, const char *value);

#endif
