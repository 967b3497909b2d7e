/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a jitdump file, jit-PID.dump: the code that a process generates, with its names and source
 * lines. Pure.
 *
 * Format (tools/perf/Documentation/jitdump-specification.txt in the sources of Linux): a header and
 * then records, each with its kind, size and time, which the process appends as it generates code.
 * JIT_CODE_LOAD says that there is code, JIT_CODE_MOVE that it is somewhere else now, and
 * JIT_CODE_DEBUG_INFO has the lines of the code of the next JIT_CODE_LOAD. What else there is, is
 * skipped: the bytes of the code, and JIT_CODE_UNWINDING_INFO. Only files of this machine's byte
 * order are read.
 *
 * How this works: the file is read in pieces of any size, while it grows. A piece is parsed as far
 * as it is complete. What is cut at its end is given again, with more after it. Records may have up
 * to 4 GiB, but of a JIT_CODE_LOAD only the start is needed, and JIT_CODE_DEBUG_INFO is parsed line
 * by line. So 8 KiB always suffice to go on, and most of the file need not be read
 * (jit_dump_skip()).
 *
 * Lines: LLVM and V8 add 0x40 to each address, because "perf inject" makes an ELF file of each
 * function, whose header has that size. The agent of the JVM does not. A function of the former has
 * no line nearer than that to its start. So the addresses of a file in which one is nearer are as
 * they are, and others are corrected by who uses them (`lines_are_exact`). V8 is recognised by its
 * header: it may write an entry for the offset -1.
 *
 * V8 as of Node 20 writes the names of some source files from memory that it has freed. They
 * contain NULs then, so the record is not read as it was meant, and its lines do not fill it. The
 * lines of such a record do not count.
 *
 * Example: {DEBUG_INFO 0x7f1200001000: +0x40 page.js:12, +0x58 page.js:14}, {LOAD 0x7f1200001000,
 * 64 bytes, "JS:*render page.js:12:3", code}. The instruction at 0x7f1200001020 is of line 14.
 */
#ifndef PARSE_JIT_DUMP_H
#define PARSE_JIT_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	/* Bytes of a name that count, and of the path of a source file. */
	JIT_DUMP_NAME_MAX = 2047,
	JIT_DUMP_FILE_MAX = 4095,
	/* A piece of this size can always be parsed in part. */
	JIT_DUMP_PIECE_BYTES = 8192,
	/* What LLVM and V8 add to the addresses of lines: the size of an ELF header. */
	JIT_DUMP_LINE_SHIFT = 0x40,
};

/* Addresses of user space have fewer bits than this on x86-64 and arm64. */
#define JIT_DUMP_END_MAX (1ull << 48)

enum jit_dump_kind {
	JIT_DUMP_LOAD, /* `text` is the name of the code at [start, end) */
	JIT_DUMP_MOVE, /* the code that was at `from` is at [start, end) now */
	/* The lines follow of the code at `start`, which is loaded afterwards; those before do not
	 * count. */
	JIT_DUMP_LINES,
	JIT_DUMP_LINE, /* from `start` on, the code is of this line of the file `text` */
};

/* 0 < end - start, and end <= JIT_DUMP_END_MAX. The text is not NUL-terminated, and is valid during
 * the call only. */
struct jit_dump_event {
	enum jit_dump_kind kind;
	uint64_t start, end;
	uint64_t from;
	uint64_t time_ns; /* CLOCK_MONOTONIC, as the process says; 0: by another clock */
	const char *text;
	size_t text_length;
	bool same_file; /* of a line: it is that of the line before, and there is no text */
	uint32_t line;
};

/* Called for each event. Returns 0, or a negative errno, which stops the parser. */
typedef int jit_dump_visit_fn(void *context, const struct jit_dump_event *event);

struct jit_dump_parser {
	bool began;	      /* the header was read */
	bool foreign_clock;   /* times are not those of CLOCK_MONOTONIC */
	bool is_of_v8;	      /* V8 has written the file */
	bool lines_are_exact; /* see above */
	uint64_t skipped;     /* records without an event that should have had one */
	uint64_t to_skip;     /* bytes before the next piece */
	uint64_t lines_left;  /* of the record that is being parsed */
	uint64_t bytes_left;  /* of that record */
	uint64_t lines_of;    /* the start of its code */
};

/* All zeros: at the start of the file. */
void jit_dump_init(struct jit_dump_parser *parser);

/* Parses the next piece as far as it is complete. Returns how many bytes were used, of which 0
 * means that more are needed; -EBADMSG if the file has another format, or is broken; or the error
 * of `visit`. After an error the parser must not be used any more. */
ssize_t jit_dump_feed(struct jit_dump_parser *parser, const uint8_t *data, size_t length,
		      jit_dump_visit_fn *visit, void *context);

/* Skips bytes that need not be read, `most` at most: the file may not have more yet. Returns how
 * many. */
static inline uint64_t jit_dump_skip(struct jit_dump_parser *parser, uint64_t most)
{
	const uint64_t skipped = parser->to_skip < most ? parser->to_skip : most;

	parser->to_skip -= skipped;
	return skipped;
}

#endif
