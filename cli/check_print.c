/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check_print.h"

#include <string.h>

#include "common/escape.h"

enum {
	STATUS_WIDTH = 11, /* the longest status: "restriction" */
};

void check_print_text(const char *text, FILE *out)
{
	escape_write_text(out, text, strlen(text), ESCAPE_KEEP_PRINTABLE);
}

void check_print_row(const char *status, const char *name, int name_width, const char *found,
		     const char *after, FILE *out)
{
	fprintf(out, "%-*s  %-*s  ", STATUS_WIDTH, status, name_width, name);
	check_print_text(found, out);
	fputc('\n', out);
	if (!after[0])
		return;
	fprintf(out, "%-*s  %-*s  -> ", STATUS_WIDTH, "", name_width, "");
	check_print_text(after, out);
	fputc('\n', out);
}

void check_print_json_member(FILE *out, const char *key, const char *value)
{
	fprintf(out, ", \"%s\": ", key);
	escape_write_json(out, value, strlen(value), ESCAPE_JSON);
}
