/* SPDX-License-Identifier: Apache-2.0 */
/* CPython: what of its file, its frames and its code objects the parts of the symbolizer share. */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_H
#define SYMBOLIZER_RUNTIME_CPYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/runtime/cpython.h"
#include "symbolizer/runtime/runtime.h"

/* How line numbers of a code object are written (Objects/lnotab_notes.txt, locations.md, of the
 * versions that have them). */
enum cpython_lines {
	CPYTHON_LNOTAB,	   /* 3.6 - 3.9: pairs of bytes */
	CPYTHON_LINETABLE, /* 3.10: pairs of bytes, another meaning */
	CPYTHON_LOCATIONS, /* 3.11 on */
};

/* Offsets in bytes of what differs between versions; 0xffff: there is no such field. */
struct cpython_offsets {
	uint16_t minor;
	uint16_t shape; /* enum cpython_shape */
	uint16_t runtime_holder, runtime_interpreters;
	uint16_t interpreter_next, interpreter_threads;
	uint16_t thread_next, thread_id, thread_top;
	uint16_t cframe_frame, cframe_previous;
	uint16_t frame_code, frame_previous, frame_position, frame_mark;
	uint16_t shim_owner;
	uint16_t code_bytes; /* before 3.11: tp_basicsize of PyCode_Type */
	uint16_t first_line, version, file, name, qualified_name, lines, instructions;
	uint16_t text, wide_text; /* in a str: of ASCII characters, of others */
};

enum {
	CPYTHON_NONE = 0xffff,
	CPYTHON_TEXTS = 2,
};

/* All that is known from the file. */
struct cpython_image {
	uint32_t version; /* PY_VERSION_HEX; without patch level where the file does not tell */
	struct cpython_offsets offsets;
	enum cpython_lines line_format;
	uint64_t runtime;      /* _PyRuntime; 0 before 3.7 */
	uint64_t interpreters; /* head of their list; 0: not known */
	uint64_t holder;       /* PyThreadState * of who holds the GIL; 0: not known */
	uint64_t code_type;    /* PyCode_Type */
	/* In an interpreter: the list of what the JIT compiler has made; 0: the build has none. */
	uint32_t executors;
	uint32_t removed_executors; /* those that are to be freed; 0: it has no such list */
	/* The evaluator's code: the function, and what the compiler has split off. */
	struct cpython_text {
		uint64_t start, end;
	} texts[CPYTHON_TEXTS];
	unsigned int text_count;
	/* See struct cpython_block. */
	uint32_t before, after[CPYTHON_AFTERS], after_end[CPYTHON_AFTERS];
};

/* cpython_file.c: see struct runtime_ops. */
int cpython_recognise(const struct runtime_file *file, void **image,
		      char refusal[RUNTIME_REFUSAL_BYTES]);

/* cpython_evaluator.c: fill in texts, before and after. 0 or -ENOENT. */
int cpython_find_evaluator(const struct runtime_file *file, struct cpython_image *image);

/* cpython_jit.c: add to a layout where the JIT compiler's code is, if there is any by now. */
void cpython_jit_ranges(const struct runtime_process *process, struct runtime_layout *layout);

/* cpython_names.c: what is remembered of a process's code objects. */
struct cpython_names;
struct cpython_names *cpython_names_new(void);
void cpython_names_free(struct cpython_names *names);
void cpython_names_forget(struct cpython_names *names);
size_t cpython_names_bytes(const struct cpython_names *names);

/* One frame; see symbolize of struct runtime_ops. */
int cpython_names_find(struct cpython_names *names, const struct cpython_image *image,
		       uint64_t bias, struct memory *memory, const uint64_t *words,
		       struct runtime_frames *frames);

/* cpython_lines.c: the line of a position, as the format has it. 0: none. */
uint32_t cpython_line(enum cpython_lines format, const uint8_t *table, size_t length,
		      uint32_t first_line, int32_t position);

#endif
