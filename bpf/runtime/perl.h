/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Perl 5.26 to 5.44: what the walker and the symbolizer share. All offsets are in bytes. They are
 * offsets of fields in the structures of intrpvar.h, cop.h, op.h, sv.h, cv.h, gv.h and hv.h.
 * Those below are the same in all of these versions, with and without threads and -DDEBUGGING, on
 * machines with 64-bit pointers; symbolizer/runtime/perl_file.c has the table of the others.
 */
#ifndef BPF_RUNTIME_PERL_H
#define BPF_RUNTIME_PERL_H

#include "bpf/runtime/frame_word.h"
#include "bpf/runtime/thread_key.h"
#include "bpf/shared.h"

enum {
	/* SV: the head of each scalar, sub, glob and stash. The type is the lowest byte of the
	 * flags. */
	PERL_SV_BODY = 0,
	PERL_SV_FLAGS = 12,
	PERL_SV_POINTER = 16,  /* sv_u: of a glob its GP, of a stash the array of its entries */
	PERL_TYPE_STASH = 12,  /* SVt_PVHV */
	PERL_TYPE_SUB = 13,    /* SVt_PVCV */
	PERL_TYPE_FORMAT = 14, /* SVt_PVFM */

	/* XPVCV, the body of a sub, as indexes of words; the flags are the upper half of theirs. */
	PERL_SUB_FIRST = 32, /* bytes before the first of these words */
	PERL_SUB_STASH = 0,
	PERL_SUB_START = 1, /* the first op that is executed */
	PERL_SUB_NAME = 3,  /* a GV, or a HEK if the sub is named */
	PERL_SUB_FLAGS = 7,
	PERL_SUB_WORDS = 8,
	PERL_SUB_IS_NAMED = 1 << 15,   /* CVf_NAMED */
	PERL_SUB_IS_LEXICAL = 1 << 16, /* CVf_LEXICAL: it is named, and in no package */

	/* XPVGV, the body of a glob. */
	PERL_GLOB_NAME = 32, /* xiv_u.xivu_namehek */
	PERL_GLOB_STASH = 40,

	/* HEK: a string with its hash and its length; four bytes each. */
	PERL_HEK_LENGTH = 4,
	PERL_HEK_TEXT = 8,

	/* COP: an op that begins a statement. The type is the lowest 9 bits of two bytes; the line
	 * is in the upper half of that word. */
	PERL_OP_TYPE = 32,
	PERL_OP_TYPE_MASK = 0x1ff,
	PERL_COP_FILE = 48, /* with threads a string, otherwise a GV whose name is _<FILE */
	PERL_COP_BYTES = 56,
	PERL_FILE_PREFIX = 2, /* of that name */

	/* PERL_SI, a stack of contexts. */
	PERL_STACK_VALUES = 0, /* si_stack */
	PERL_STACK_CONTEXTS = 8,
	PERL_STACK_PREVIOUS = 16,
	PERL_STACK_INDEX = 32, /* si_cxix, 4 bytes: of the topmost context */
	PERL_STACK_WORDS = 6,
	PERL_STACK_SORT = 3,	   /* PERLSI_SORT in si_type, 4 bytes */
	PERL_STACK_MULTICALL = 10, /* PERLSI_MULTICALL */

	/* PERL_CONTEXT: a block, a loop, a call, an eval. */
	PERL_CONTEXT_OLD_COP = 16, /* the statement that was executed when it began */
	PERL_CONTEXT_RETURN = 48,  /* of calls and evals: the op that follows; 0: C code */
	PERL_CONTEXT_TYPE_MASK = 15,
	PERL_CONTEXT_NULL = 0,
	PERL_CONTEXT_SUB = 9,
	PERL_CONTEXT_FORMAT = 10,
	PERL_CONTEXT_EVAL = 11,
	/* Flags of a call. */
	PERL_CALL_MULTI = 0x10,	 /* CXp_MULTICALL: one context for many calls by C code */
	PERL_CALL_REGEXP = 0x80, /* CXp_SUB_RE_FAKE: code in a regular expression */
	/* Flags of an eval. One with neither of the first two is a require, or a do with a file. */
	PERL_EVAL_STRING = 0x20, /* CXp_REAL */
	PERL_EVAL_BLOCK = 0x40,	 /* CXp_TRYBLOCK */
	PERL_EVAL_TRY = 0x80,	 /* CXp_TRY: try {}, from 5.34 on */

	/* JMPENV: where an exception leads to. They lie on the C stack. */
	PERL_JUMP_PREVIOUS = 0,

	PERL_INTERPRETER_OP = 8, /* PL_op, with threads or -Dusemultiplicity */
	PERL_INTERPRETER_WORDS = 32,
	PERL_TEXT_BYTES = 64, /* of the name of a file are part of its identity */
};

struct perl_block {
	/* Where the interpreter of the thread is: under a key of each C library that is possible,
	 * or at `current`. If neither is set there is only one, and its fields have addresses. */
	struct thread_key keys[THREAD_KEY_PLACES];
	uint32_t key_count;
	uint32_t files_are_globs; /* built without threads */
	uint64_t current;
	/* PL_op, PL_curcop, PL_curstack, PL_curstackinfo, PL_top_env: offsets in the interpreter,
	 * or addresses. */
	uint64_t op, cop, values, stack, jump;
	uint32_t stack_type; /* PERL_SI.si_type */
	uint32_t context_bytes;
	uint32_t context_sub;	       /* the sub of a call: a CV */
	uint32_t aux_in_array;	       /* the name of a package is after the array of entries */
	uint32_t op_sort, op_entersub; /* the types of these ops */
};
_Static_assert(sizeof(struct perl_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A managed frame of Perl has three to five words. The second one is a frame_word(), whose position
 * is the line of the statement that is executed. The payload of the first and the further words
 * depend on the kind. The last one is a perl_place() with the payload as its base: where in that
 * statement the next frame was called.
 */
enum perl_frame {
	/* The payload is the first op of the sub, which all closures of it share. The third word is
	 * the glob by which it was defined. */
	PERL_FRAME_SUB,
	/* The same, but the third word is the HEK of its name, and the fourth its package. */
	PERL_FRAME_NAMED_SUB,
	PERL_FRAME_LEXICAL_SUB, /* the same without a package */
	/* The payload is the address of the name of the file. */
	PERL_FRAME_EVAL,
	PERL_FRAME_REQUIRE,
	PERL_FRAME_SORT, /* the block of a sort */
	PERL_FRAME_MAIN, /* the program */
};

/* Returns the distances of the statement `cop`, in the lower half, and of the op at which the
 * caller goes on after a call, both from `base` and in units of 8 bytes. 0: that op is not known,
 * or too far away. Ops of one program are mostly allocated near to each other. */
static inline uint64_t perl_place(uint64_t base, uint64_t cop, uint64_t next_op)
{
	const uint64_t distance = 1ull << 34;

	if (!next_op || cop - base + distance >= 2 * distance ||
	    next_op - base + distance >= 2 * distance)
		return 0;
	return (uint32_t)((cop - base) >> 3) | (next_op - base) >> 3 << 32;
}

static inline int perl_frame_has_sub(uint32_t kind)
{
	return kind <= PERL_FRAME_LEXICAL_SUB;
}

/* Returns what distinguishes a sub from another one whose first op is at the same address later: a
 * hash of the texts of its name and package, of the glob or HEK with the name, and of the statement
 * at the first op: its line, and its file if that is there (`file`). */
static inline uint32_t perl_sub_identity(uint64_t name, uint32_t name_hash, uint32_t package_hash,
					 uint32_t line, uint64_t file)
{
	return frame_word_hash(name, (uint64_t)package_hash << 32 | name_hash,
			       file ^ (uint64_t)line << 32);
}

/* Returns a hash of the text of a file's name: of the words up to the one with the NUL, at most
 * PERL_TEXT_BYTES. What follows the NUL does not count. */
static inline uint32_t perl_text_identity(const uint64_t words[PERL_TEXT_BYTES / 8])
{
	uint64_t h = 0, ended = 0;

	for (int i = 0; i < PERL_TEXT_BYTES / 8; i++) {
		/* The highest bit of each byte that is 0, and of some above the lowest one. */
		const uint64_t zeros =
		    (words[i] - 0x0101010101010101ull) & ~words[i] & 0x8080808080808080ull;
		const uint64_t before = zeros ? (zeros & -zeros) - 1 : ~0ull;

		h = (h ^ h >> 29 ^ (words[i] & before & ~ended)) * 0x9e3779b97f4a7c15ull;
		ended |= zeros ? ~0ull : 0;
	}
	return (uint32_t)(h >> 32);
}

/* Where the name of a package is: from 5.36 on in the body of the stash, before that after the
 * array of its entries (struct xpvhv_aux in hv.h). */
enum {
	PERL_STASH_MOST = 24, /* xhv_max: the number of entries, less one */
	PERL_STASH_AUX = 32,  /* xhv_aux in the body */
	PERL_AUX_NAME = 0,    /* xhv_name_u: a HEK, or a list of them if there is a count */
	PERL_AUX_NAME_COUNT = 28,
	PERL_AUX_BYTES = 32,
	PERL_AUX_IN_BODY_SINCE = 36, /* Perl 5.36 */
};

#endif
