/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files cpython*.c share: the description of one CPython executable or library, which
 * cpython_file.c makes once per file and which all processes that map the file use.
 *
 * Names follow CPython's source: offsets are those of the structures in Include/cpython and
 * Include/internal of the version in question.
 */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_IMAGE_H
#define SYMBOLIZER_RUNTIME_CPYTHON_IMAGE_H

#include <stdint.h>

#include "bpf/runtime/cpython.h"

/* The encoding of a code object's line table. Objects/lnotab_notes.txt describes the first two,
 * Objects/locations.md (3.11, later InternalDocs/code_objects.md) the third. */
enum cpython_line_format {
	CPYTHON_LNOTAB,	   /* 3.6 - 3.9: co_lnotab, pairs of bytes */
	CPYTHON_LINETABLE, /* 3.10: co_linetable, pairs of bytes with another meaning */
	CPYTHON_LOCATIONS, /* from 3.11: co_linetable, entries of variable length */
};

enum {
	CPYTHON_NONE = 0xffff, /* in struct cpython_offsets: this version has no such field */
	CPYTHON_TEXTS = 2,     /* the evaluator function and the part split off from it */
};

/* Offsets in bytes that differ between versions. */
struct cpython_offsets {
	uint16_t minor; /* 9 for CPython 3.9 */
	uint16_t shape; /* enum cpython_shape */
	/* In _PyRuntime: gilstate.tstate_current, interpreters.head. */
	uint16_t runtime_holder, runtime_interpreters;
	/* In PyInterpreterState: next, threads.head (tstate_head before 3.11). */
	uint16_t interpreter_next, interpreter_threads;
	/* In PyThreadState: next, thread_id, and the top frame (frame, cframe or current_frame). */
	uint16_t thread_next, thread_id, thread_top;
	/* In _PyCFrame (3.11, 3.12): current_frame, previous. */
	uint16_t cframe_frame, cframe_previous;
	/* In a frame: f_code (f_executable), f_back (previous), f_lasti (prev_instr, instr_ptr),
	 * is_entry (owner). */
	uint16_t frame_code, frame_previous, frame_position, frame_mark;
	uint16_t shim_owner; /* a frame whose owner is this or greater has no code; 0: is_entry */
	uint16_t code_bytes; /* before 3.11: tp_basicsize of PyCode_Type */
	/* In PyCodeObject: co_firstlineno, co_version, co_filename, co_name, co_qualname,
	 * co_lnotab or co_linetable, co_code_adaptive (0 before 3.11). */
	uint16_t first_line, version, file, name, qualified_name, lines, instructions;
	/* In a str: the characters of an ASCII string, and of any other compact string. */
	uint16_t text, wide_text;
};

/* Everything that is found out from the file. Addresses are virtual addresses in the file. */
struct cpython_image {
	uint32_t version; /* PY_VERSION_HEX; the patch level is 0 if the file does not state it */
	struct cpython_offsets offsets;
	enum cpython_line_format line_format;
	uint64_t runtime;      /* _PyRuntime; 0 before 3.7 */
	uint64_t interpreters; /* the head of the list of interpreters; 0: unknown */
	uint64_t holder;    /* the PyThreadState * of the thread that holds the GIL; 0: unknown */
	uint64_t code_type; /* PyCode_Type */
	/* Offsets in PyInterpreterState of the JIT compiler's executor lists: those in use, and
	 * those that wait to be freed. 0: this build has no such list. */
	uint32_t executors, removed_executors;
	/* The evaluator's code: the function itself, and the part that the compiler split off. */
	struct cpython_text {
		uint64_t start, end;
	} texts[CPYTHON_TEXTS];
	unsigned int text_count;
	/* As in struct cpython_block. */
	uint32_t before, after[CPYTHON_AFTERS], after_end[CPYTHON_AFTERS];
};

#endif
