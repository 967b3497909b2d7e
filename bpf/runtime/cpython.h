/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * CPython 3.6 to 3.14: what the walker and the symbolizer share. All offsets are in bytes. They are
 * offsets of fields in the structures of Include/cpython and Include/internal of the respective
 * version; symbolizer/runtime/cpython_file.c has the table of them.
 */
#ifndef BPF_RUNTIME_CPYTHON_H
#define BPF_RUNTIME_CPYTHON_H

#include "bpf/runtime/thread_key.h"
#include "bpf/shared.h"

/* Which Python frames belong to one C frame of _PyEval_EvalFrameDefault, the evaluator. */
enum cpython_shape {
	CPYTHON_ONE_EACH, /* 3.6 to 3.10: one Python frame */
	CPYTHON_CFRAME,	  /* 3.11, 3.12: those of a _PyCFrame, which lies in the C frame */
	/* From 3.13: all up to a frame without code (shim), which lies in the C frame. */
	CPYTHON_SHIM,
};

enum {
	/* The part of a code object that is read: its first byte and its length in words. It
	 * contains all fields of interest in each of the versions. */
	CPYTHON_CODE_FIRST = 32,
	CPYTHON_CODE_WORDS = 14,
	CPYTHON_AFTERS = 4,
	/* The length in words of the part that is read of a PyThreadState, from its start. */
	CPYTHON_STATE_WORDS = 24,
	CPYTHON_RANGE_JIT = 1, /* data of a range: code of the JIT compiler, not the evaluator */
};

struct cpython_block {
	uint32_t shape;	       /* enum cpython_shape */
	struct thread_key key; /* the value is the thread's PyThreadState * */
	/* 3.7 to 3.11, otherwise 0: the address of the PyThreadState * that holds the GIL. If a
	 * thread has several states (subinterpreters), that is the one that runs. */
	uint64_t holder;
	/* With subinterpreters a thread has a state in each interpreter that it has called. This is
	 * the address of the head of the list of interpreters, or 0 if it is unknown. */
	uint64_t interpreters;
	uint32_t interpreter_next, interpreter_threads, thread_next;
	uint32_t thread_id; /* in PyThreadState: a pthread_t, which equals the thread pointer */
	uint32_t top;	    /* in PyThreadState: the topmost frame, or the _PyCFrame */
	uint32_t cframe_frame, cframe_previous;
	uint32_t code, previous;	/* in a frame */
	uint32_t position;		/* in a frame: f_lasti, prev_instr or instr_ptr */
	uint32_t mark_word, mark_shift; /* in a frame: the word, and the bit in it, where is_entry
					   or owner begins */
	uint32_t shim_owner; /* an owner of at least this value is not the frame of a function; 0:
				the mark is is_entry */
	uint64_t code_mask;  /* the bits of a tagged reference that are the address */
	/* In the code object, as indexes into the words that are read. */
	uint32_t file, name, qualified_name, lines;
	uint32_t first_line; /* 4 bytes, at this offset from CPYTHON_CODE_FIRST */
	/* The same for a version number that no other code object has; 0: there is none. */
	uint32_t version;
	uint32_t string_hash;  /* in a string */
	uint32_t string_text;  /* in a string: no text begins further from its start */
	uint32_t instructions; /* in the code object: where the instructions begin, if positions are
				* pointers to them; 0: positions are numbers */
	/* 3.6 to 3.10: the parts of the evaluator in which its Python frame is not in the chain of
	 * frames, as offsets from its start: before the frame is added (`before`), and after it was
	 * removed, which happens at two places at most. */
	uint64_t evaluator;
	uint32_t before, after[CPYTHON_AFTERS], after_end[CPYTHON_AFTERS];
	uint32_t frame_bytes; /* from 3.11: size of the part of a frame with the fields above */
};
_Static_assert(sizeof(struct cpython_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/* What the name of a code object needs (struct bh_memory_copy). Objects of variable size are copied
 * from CPYTHON_OBJECT_SIZE on, where their size is. */
enum {
	CPYTHON_OBJECT_SIZE = 16,
	CPYTHON_BYTES_DATA = 32, /* PyBytesObject.ob_sval */
	/* PyASCIIObject.hash, after ob_refcnt, ob_type and length; in `state`, kind is bytes per
	 * character (Include/cpython/unicodeobject.h). */
	CPYTHON_STR_HASH = 24,
	CPYTHON_STR_KIND_SHIFT = 2,
	CPYTHON_STR_KIND_MASK = 7,
	CPYTHON_COPY_NAME = 32,
	CPYTHON_COPY_QUALIFIED_NAME = 240,
	CPYTHON_COPY_FILE = 304,
	CPYTHON_COPY_LINES = 1024,
};

struct cpython_copy {
	struct bh_memory_copy start;
	struct bh_memory_part code_part;
	uint64_t code[CPYTHON_CODE_FIRST / 8 + CPYTHON_CODE_WORDS];
	struct bh_memory_part name_part;
	uint8_t name[CPYTHON_COPY_NAME]; /* its size and its hash */
	struct bh_memory_part qualified_name_part;
	uint8_t qualified_name[CPYTHON_COPY_QUALIFIED_NAME];
	struct bh_memory_part file_part;
	uint8_t file[CPYTHON_COPY_FILE];
	struct bh_memory_part lines_part;
	uint8_t lines[CPYTHON_COPY_LINES];
};
_Static_assert(sizeof(struct cpython_copy) <= BH_MEMORY_COPY_MAX, "fits");

/*
 * A managed frame of CPython has two words. The payload of the first is the address of the code
 * object. The second is identity << 32 | position. The position is f_lasti, or the distance in
 * bytes from the start of the instructions, as a signed number.
 */
static inline uint64_t cpython_word(uint32_t identity, int32_t position)
{
	return (uint64_t)identity << 32 | (uint32_t)position;
}

/* Returns what distinguishes a code object from another one that is later placed at the same
 * address. It is used where the code object has no version number, or that is 0 because all
 * were used up. It hashes the addresses of its parts, and the hash of its name, which a
 * successor cannot inherit. */
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
