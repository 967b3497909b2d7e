/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses /proc/kallsyms (proc_kallsyms(5)) as a stream. Lines are "ADDRESS TYPE NAME" or "ADDRESS
 * TYPE NAME\t[MODULE]"; the type is a letter as in nm(1). Pure. See kallsyms.c for how this works.
 */
#ifndef PARSE_KALLSYMS_H
#define PARSE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Bytes of a line. Names have at most 511 bytes (KSYM_NAME_LEN), modules 55
	 * (MODULE_NAME_LEN). A longer line is skipped. */
	KALLSYMS_LINE_MAX = 1024,
};

/* The texts are not NUL-terminated, have at least one byte, and are valid during the call only. */
struct kallsyms_symbol {
	uint64_t address;
	const char *name;
	const char *module; /* NULL for the core kernel */
	size_t name_length, module_length;
	char type;
};

/* Called for each symbol. A nonzero return stops the parser. */
typedef int kallsyms_visit_fn(void *context, const struct kallsyms_symbol *symbol);

struct kallsyms_parser {
	kallsyms_visit_fn *visit;
	void *context;
	uint64_t lines, skipped; /* all lines; those of another form, or too long */
	size_t length;		 /* bytes in `line`: the start of a line that was cut */
	bool too_long;		 /* that line does not fit, and is skipped up to its end */
	char line[KALLSYMS_LINE_MAX];
};

void kallsyms_init(struct kallsyms_parser *parser, kallsyms_visit_fn *visit, void *context);

/* Parses the next piece. Returns 0, or the nonzero value of `visit`, after which the parser must
 * not be used any more. */
int kallsyms_feed(struct kallsyms_parser *parser, const char *data, size_t length);

/* Parses the last line, if the text did not end with a newline. Returns what
 * kallsyms_feed() returns. */
int kallsyms_finish(struct kallsyms_parser *parser);

#endif
