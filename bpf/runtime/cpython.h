/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * CPython 3.6 - 3.14: what walker and symbolizer share. Offsets are in bytes, in structures of
 * Include/cpython and Include/internal of the version in question; symbolizer/runtime/cpython.c has
 * their table.
 */
#ifndef BPF_RUNTIME_CPYTHON_H
#define BPF_RUNTIME_CPYTHON_H

#include "bpf/shared.h"

/* How Python's frames belong to those of _PyEval_EvalFrameDefault on the C stack. */
enum cpython_shape {
	CPYTHON_ONE_EACH, /* 3.6 - 3.10: one Python frame for each */
	CPYTHON_CFRAME,	  /* 3.11, 3.12: those of a _PyCFrame, which lies in the C frame */
	CPYTHON_SHIM,	  /* 3.13 on: up to a frame without code, which lies in the C frame */
};

enum {
	/* What is read of a code object: from here on, so many words. All fields of interest lie in
	 * there, in every version. */
	CPYTHON_CODE_FIRST = 32,
	CPYTHON_CODE_WORDS = 14,
	CPYTHON_AFTERS = 4,
	/* And of a PyThreadState, from its begin on. */
	CPYTHON_STATE_WORDS = 24,
	CPYTHON_RANGE_JIT = 1, /* a range's data: code of the JIT compiler, not the evaluator's */
};

struct cpython_block {
	uint32_t shape; /* enum cpython_shape */
	/* The thread's PyThreadState *: at thread pointer + tls_first, or if tls_indirect, that is
	 * a pointer and it is tls_second behind it. */
	uint32_t tls_indirect, tls_first, tls_second;
	/* Of a runtime that has it (3.7 - 3.11, else 0): where the PyThreadState * is that holds
	 * the GIL; of several of one thread (subinterpreters) the one that runs. */
	uint64_t holder;
	/* With subinterpreters a thread has a state in each that it has called into: the address of
	 * the list's head, or 0 if it is not known. */
	uint64_t interpreters;
	uint32_t interpreter_next, interpreter_threads, thread_next;
	uint32_t thread_id; /* in PyThreadState; a pthread_t, which is the thread pointer */
	uint32_t top;	    /* in PyThreadState: the topmost frame, or the _PyCFrame */
	uint32_t cframe_frame, cframe_previous;
	uint32_t code, previous; /* in a frame */
	uint32_t position;	 /* in a frame: f_lasti, prev_instr or instr_ptr */
	uint32_t mark_word,
	    mark_shift; /* in a frame: the word and the bit at which is_entry or owner begins */
	uint32_t shim_owner; /* an owner from here on is no frame of a function; 0: is_entry */
	uint64_t code_mask;  /* a tagged reference's address */
	/* In the code object, as indexes of the words that are read. */
	uint32_t file, name, qualified_name, lines;
	uint32_t first_line;   /* in bytes from CPYTHON_CODE_FIRST, of 4 */
	uint32_t version;      /* the same, of a number that no other has; 0: there is none */
	uint32_t string_hash;  /* in a string */
	uint32_t instructions; /* in the code object: where positions begin, if they are pointers;
				  0: numbers */
	/* 3.6 - 3.10: code of the evaluator, as offsets in it, in which its Python frame is not on
	 * the chain: before it is put there, after it was taken off (two places at most). */
	uint64_t evaluator;
	uint32_t before, after[CPYTHON_AFTERS], after_end[CPYTHON_AFTERS];
	uint32_t frame_bytes; /* 3.11 on: of a frame, what the fields above lie in */
};
_Static_assert(sizeof(struct cpython_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A frame: the code object's address in the first word's payload, then identity << 32 | position.
 * The position is f_lasti, or bytes from the begin of the instructions, as a signed number.
 */
static inline uint64_t cpython_word(uint32_t identity, int32_t position)
{
	return (uint64_t)identity << 32 | (uint32_t)position;
}

/* What tells a code object from another that comes to lie at its address, where it has no version
 * (or that is 0, for all were used up): its parts' addresses, and what those cannot inherit, the
 * hash of its name. */
static inline uint32_t cpython_identity(uint64_t file, uint64_t name, uint64_t qualified_name,
					uint64_t lines, uint32_t first_line, uint64_t name_hash)
{
	uint64_t h = file * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 29 ^ name) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 32 ^ qualified_name) * 0x94d049bb133111ebull;
	h = (h ^ h >> 31 ^ lines) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 30 ^ name_hash) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 32 ^ first_line) * 0x94d049bb133111ebull;
	return (uint32_t)(h >> 32);
}

#endif
