/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses /tmp/perf-PID.map as a stream: the names that a JIT compiler gives to its code. Pure.
 *
 * Format (tools/perf/Documentation/jit-interface.txt in the sources of Linux): lines "START SIZE
 * NAME", both numbers in hex; some compilers write 0x before them. The name is the rest of the line
 * and may contain blanks. The writer appends a line for each function that it compiles, and none
 * when it frees code, so a later line replaces earlier ones at the same addresses.
 *
 * How this works: the file is read in pieces of any size, while it grows. A line is parsed when its
 * newline is there. One that is cut is kept until the next piece. Of a line that is too long, the
 * end of the name is dropped.
 *
 * Example: "7f1200001000 40 LazyCompile:~render page.js:12" is the code from 0x7f1200001000 up to
 * 0x7f1200001040, with the name "LazyCompile:~render page.js:12".
 */
#ifndef PARSE_PERF_MAP_H
#define PARSE_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Bytes of a line that count. Names that are shown have at most 2,047 bytes. */
	PERF_MAP_LINE_MAX = 2048,
};

/* Addresses of user space have fewer bits than this on x86-64 and arm64. */
#define PERF_MAP_END_MAX (1ull << 48)

/* The name has at least one byte, no newline and no NUL, is not NUL-terminated, and is valid during
 * the call only. start < end <= PERF_MAP_END_MAX. */
struct perf_map_entry {
	uint64_t start, end;
	const char *name;
	size_t name_length;
};

/* Called for each entry. A nonzero return stops the parser. */
typedef int perf_map_visit_fn(void *context, const struct perf_map_entry *entry);

struct perf_map_parser {
	uint64_t lines, skipped; /* all lines; those of another form */
	size_t length;		 /* bytes in `line`: the start of a line that was cut */
	char line[PERF_MAP_LINE_MAX];
};

void perf_map_init(struct perf_map_parser *parser);

/* Parses the next piece. Returns 0, or the nonzero value of `visit`, after which the parser must
 * not be used any more. */
int perf_map_feed(struct perf_map_parser *parser, const char *data, size_t length,
		  perf_map_visit_fn *visit, void *context);

#endif
