/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The state of one stack walk. The kernel has one for each CPU, the manager and the tests one for
 * each walk.
 */
#ifndef BPF_UNWIND_STATE_H
#define BPF_UNWIND_STATE_H

#include "bpf/shared.h"
#include "bpf/unwind/bits.h"

enum {
	/* 2 KiB of stack. Each read of a process's memory costs 60 to 75 ns, of which the
	 * size is the smaller part, so that one large copy is cheaper than a read for
	 * each frame. A power of two. */
	STACK_WINDOW_WORDS = 256,
	/* 2 KiB of a runtime's heap, for the same reason. A power of two. */
	HEAP_COPY_WORDS = 256,
	STACK_ENDS_BITS = 3, /* ends of stacks that are remembered: 8, which is a cache line */
	/* Managed frames that a walker may push for native frames further out. A power of two. */
	PENDING_FRAMES_MAX = 8,
	/* Size of the state of one runtime's walker. The first words are zero when the walker is
	 * called for the first time in a stack. */
	WALKER_STATE_WORDS = 32,
	WALKER_STATE_ZEROED_WORDS = 8,

	/* What a step returns if the stack has not ended. Otherwise it returns an enum bh_reason,
	 * which is not negative. */
	UNWIND_CONTINUE = -1,
	UNWIND_CALL_WALKER = -2, /* call the walker of the runtime s->runtime.id, then continue */
};

/*
 * A walker answers each call with a verdict in s->runtime.verdict. The verdict says what the
 * unwinder does next. The table has all transitions; unwind_step() in step.h implements them.
 *
 *	verdict            native frame at s->pc        next call of the walker
 *	----------------   --------------------------   -------------------------------------------
 *	MOVED              the walker has set s->pc,    at the next frame in a range: AT_FRAME
 *	                   s->sp and s->fp to those
 *	                   of the caller
 *	REPLACED           is unwound, not pushed       at the next frame in a range: AT_FRAME
 *	NOT_MINE           is pushed and unwound        at the next frame in a range: AT_FRAME
 *	RESUME_IN_CALLER   is unwound, not pushed       at once: IN_CALLER
 *	CALL_AGAIN         is left as it is             at once: AT_FRAME if the call was AT_FRAME,
 *	                                                IN_CALLER_AGAIN if it was one of the others
 */
enum walker_verdict {
	WALKER_MOVED,
	WALKER_REPLACED,
	WALKER_NOT_MINE,
	WALKER_RESUME_IN_CALLER,
	WALKER_CALL_AGAIN,
};

/* In which state a walker is called: s->runtime.resume. */
enum walker_resume {
	WALKER_AT_FRAME,	/* s->pc is in the frame in question */
	WALKER_IN_CALLER,	/* that frame has been unwound; frame_start, frame_end are valid */
	WALKER_IN_CALLER_AGAIN, /* the same, and the walker has been called in that state before */
};

/* Returns the state in which a walker is called again after WALKER_CALL_AGAIN. Without a branch,
 * because the verifier would follow both sides of it in each step. */
static __always_inline uint32_t walker_resume_again(uint32_t resume)
{
	_Static_assert(WALKER_AT_FRAME == 0 && WALKER_IN_CALLER == 1 && WALKER_IN_CALLER_AGAIN == 2,
		       "an odd state becomes the next one");
	return resume + (resume & 1);
}

/* A position in the list of frames, to which push_rewind() goes back. */
struct frame_mark {
	uint64_t sum;
	uint32_t count;
	uint32_t reserved;
};

/*
 * Managed frames that were pushed before their native frames were reached (push.h). Each of them
 * replaces the next native frame in a range of `block`. Most of these are in the range from `start`
 * to `end`, which is checked without a search.
 */
struct pending_frames {
	uint32_t next, count;
	uint32_t runtime, block;
	uint64_t start, end;
	struct {
		uint64_t frame, extra; /* the two words of a managed frame */
	} frames[PENDING_FRAMES_MAX];
};

/* State of the language-runtime walkers during one stack walk. */
struct unwind_runtime {
	uint32_t first_range, range_count; /* of the process; no ranges: it has no runtime */
	uint32_t managed_frames;	   /* managed frames in the stack so far */
	uint32_t verdict;		   /* enum walker_verdict, about the frame at s->pc */
	uint32_t resume;		   /* enum walker_resume */
	uint32_t sequence, slot;	   /* of the process's slot, to detect a change */
	uint32_t started;		   /* set of runtimes whose walkers were called */
	uint32_t new_code;  /* this CPU has not seen some of the managed code before */
	uint64_t goroutine; /* the id of the one that the thread runs; 0: none, or unknown */
	/* For method_cache.h: the part of the key that identifies the process, and the position of
	 * the entry that was used last. */
	uint64_t method_key, method_position;
	/* The range that contains s->pc, valid with UNWIND_CALL_WALKER. */
	uint32_t id, block, data; /* the runtime's id, its block, its own data */
	uint64_t range_start, range_end;
	/* Valid once the walk has left the native frame (WALKER_IN_CALLER): its stack bounds
	 * (`frame_end` is all ones for the outermost frame), the position in the frame list where
	 * its managed frames start, and the result that the walker finally returns. */
	uint64_t frame_start, frame_end;
	struct frame_mark mark;
	int32_t result;
	struct bh_runtime_code_filter code_filters[BH_RUNTIME_CODE_FILTERS];
	struct pending_frames pending;
	/* The state of each runtime's walker. Each walker has a struct of its own for it
	 * (RUNTIME_STATE in bpf/runtime/walker.h). walker_start() zeroes its first words. */
	uint64_t walker_state[BH_RUNTIME_COUNT][WALKER_STATE_WORDS];
	/* A copy of the process's memory from `heap_start` on. A walker that uses `heap` for
	 * something else sets `heap_bytes` to 0. */
	uint64_t heap_start, heap_bytes;
	uint64_t heap[HEAP_COPY_WORDS];
};

/* A window_start from which no address is less than a window away: there is no copy. */
#define STACK_NO_WINDOW (~0ull >> 1)

struct unwind_state {
	uint64_t pc, sp, fp;
	/* By DWARF register number. All are valid while registers_known, rbx also while bx_known.
	 * Some hand-written code computes its CFA from rbx. */
	uint64_t gpr[16];
	uint32_t registers_known; /* the frame was interrupted, it did not call another one */
	uint32_t bx_known;
	uint32_t mapping_slab, mapping_offset, mapping_count; /* of the process */
	uint32_t frame_count;				      /* words in `frames` */
	/* The sum of the hashes of all frames so far, and the secret that the hashes use. No hash
	 * depends on an earlier one, so that the processor computes several at once. */
	uint64_t stack_sum, stack_key;
	uint64_t rule_position; /* in the rule cache, of the rule of the previous frame */
	uint64_t generated;	/* a frame is in memory without a file */
	struct bh_mapping last; /* mapping of the previous frame */
	/* For a hash of a page: the index of its mapping in the list. Modules that call each other
	 * are found without a search. A hint may be wrong, so the mapping is checked. */
	uint16_t hints[1 << MAPPING_HINT_BITS];
	/* Ends of pages beyond which a stack could not be read (stack.h). */
	uint64_t stack_ends[1 << STACK_ENDS_BITS];
	uint64_t window_start;
	uint64_t window[STACK_WINDOW_WORDS]; /* a copy of the stack from window_start on */
	struct unwind_runtime runtime;
	/* The record under construction. From here on the bytes go into the ring as they are. */
	struct bh_sample header;
	uint64_t frames[BH_FRAMES_ROOM];
};

/* Removes all frames from the list, and what is known of them. */
static __always_inline void unwind_clear_frames(struct unwind_state *s)
{
	s->frame_count = 0;
	s->stack_sum = 0;
	s->generated = 0;
	s->runtime.goroutine = 0;
}

/* Prepares for a walk. The caller has set the registers and the mappings. */
static __always_inline void unwind_start(struct unwind_state *s)
{
	unwind_clear_frames(s);
	s->rule_position = 0;
	s->registers_known = 1;
	s->bx_known = 1;
	s->last.start = 0;
	s->last.end = 0;
	s->window_start = STACK_NO_WINDOW;
	s->runtime.range_count = 0;
	s->runtime.managed_frames = 0;
	s->runtime.started = 0;
	s->runtime.new_code = 0;
	s->runtime.verdict = WALKER_MOVED;
	s->runtime.resume = WALKER_AT_FRAME;
	s->runtime.method_position = 0;
	s->runtime.pending.next = 0;
	s->runtime.pending.count = 0;
	s->runtime.code_filters[0].bytes = 0;
	s->runtime.code_filters[1].bytes = 0;
}

#endif
