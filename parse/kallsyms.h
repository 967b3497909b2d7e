/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/kallsyms (proc(5)), one symbol a line: "ADDRESS TYPE NAME" or "ADDRESS TYPE
 * NAME\t[MODULE]", where the type is that of nm(1). Streaming: bytes come in pieces of any size.
 * Names of modules and of their symbols are chosen by whoever built them, so lines that do not fit
 * the form are skipped and counted. Pure.
 */
#ifndef PARSE_KALLSYMS_H
#define PARSE_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KALLSYMS_LINE_MAX = 1024, /* bytes; the kernel's names end at 512, modules' at 56 */
};

/* The texts are not NUL-terminated, have at least one byte, and live only during the call. */
struct kallsyms_symbol {
	uint64_t address;
	const char *name;
	const char *module; /* NULL for the core kernel */
	size_t name_length, module_length;
	char type;
};

typedef int kallsyms_visit_fn(void *context, const struct kallsyms_symbol *symbol);

struct kallsyms_parser {
	kallsyms_visit_fn *visit;
	void *context;
	uint64_t lines, skipped; /* lines seen; of those, not understood */
	size_t length;		 /* bytes of a line that the last piece cut, in `line` */
	bool too_long;		 /* ... which does not fit: dropped up to its end */
	char line[KALLSYMS_LINE_MAX];
};

void kallsyms_init(struct kallsyms_parser *parser, kallsyms_visit_fn *visit, void *context);

/* Parse the next piece. Stops at the first nonzero return of `visit` and returns it (the parser is
 * then of no more use). */
int kallsyms_feed(struct kallsyms_parser *parser, const char *data, size_t length);

/* The text has ended: parse a last line that had no newline. */
int kallsyms_finish(struct kallsyms_parser *parser);

/* One line, without its newline. false if it does not have the form. */
bool kallsyms_parse_line(const char *line, size_t length, struct kallsyms_symbol *symbol);

#endif
