/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* The state of one stack walk. */
#ifndef BPF_UNWIND_STATE_H
#define BPF_UNWIND_STATE_H

#include "bpf/shared.h"
#include "bpf/unwind/bits.h"

enum {
	STACK_WINDOW_WORDS = 256, /* a power of two */
	UNWIND_CACHED_FRAMES = 16,
	HEAP_COPY_WORDS = 256, /* a power of two */
	WALKER_STATE_WORDS = 8,
	PENDING_FRAMES_MAX = 8, /* a power of two */
	UNWIND_CONTINUE = -1,
	UNWIND_CALL_WALKER = -2, /* s->runtime says which runtime's walker knows this frame */
};

/* What a runtime's walker did with the native frame it was called for. */
enum walker_verdict {
	WALKER_MOVED,
	WALKER_REPLACED, /* its frames stand for the native one: go over that, do not note it */
	WALKER_NOT_MINE, /* it knows nothing of it: a native frame like any other */
	WALKER_RESUME_IN_CALLER, /* go over the native frame, and call again: s->runtime.resume */
	WALKER_CALL_AGAIN,	 /* it has more frames than it takes in one call */
};

/* Is the native frame that a walker is called for still at s->pc? */
enum walker_resume {
	WALKER_AT_FRAME,
	WALKER_IN_CALLER, /* WALKER_RESUME_IN_CALLER: it was from frame_start to frame_end */
	WALKER_IN_CALLER_AGAIN,
};

/* A point in the frames noted, to which one may go back. */
struct frame_mark {
	uint64_t sum;
	uint32_t count;
	uint32_t reserved;
};

/* A managed frame with one word behind its first. */
struct pending_frame {
	uint64_t frame, extra;
};

/* Of language runtimes, while a stack is walked. A runtime's walker may use heap and memory. */
struct unwind_runtime {
	uint32_t first_range, range_count; /* of the process; 0: it has no runtime */
	uint32_t managed_frames;	   /* in the stack */
	uint32_t verdict;		   /* enum walker_verdict, of the frame at s->pc */
	uint32_t resume;		   /* enum walker_resume */
	uint32_t sequence, slot;
	/* Of bpf/runtime/method_cache.h: what its keys are made with, another for each process and
	 * state of its slot; where the entry is that was used last. */
	uint64_t method_key, method_position;
	/* The range that s->pc is in, with UNWIND_CALL_WALKER. */
	uint32_t id, block, data;
	uint64_t range_start, range_end;
	/* Behind the native frame: stack pointers in it and in its caller (all ones if there is
	 * none), where its frames begin, and how the walk goes on: what the walker returns at last.
	 */
	uint64_t frame_start, frame_end;
	struct frame_mark mark;
	int32_t result;
	uint32_t scratch_identity;
	uint64_t argument[2]; /* of a walker's parts */
	uint64_t scratch_address;
	uint64_t scratch[16];
	struct bh_runtime_code_filter code_filters[BH_RUNTIME_CODE_FILTERS];
	/* Frames noted ahead (pending_push): each stands for the next native frame in a range of
	 * this block, most of which are in this range. */
	uint32_t pending_next, pending_count, pending_runtime, pending_block;
	uint64_t pending_start, pending_end;
	struct pending_frame pending[PENDING_FRAMES_MAX];
	/* What a walker keeps from one of its frames to the next; 0 at a stack's begin. */
	uint64_t memory[BH_RUNTIME_COUNT][WALKER_STATE_WORDS];
	/* A copy of memory from heap_start on, as the stack's window. */
	uint64_t heap_start, heap_bytes;
	uint64_t heap[HEAP_COPY_WORDS];
};

/* No address is less than a window above it. */
#define STACK_NO_WINDOW (~0ull >> 1)

struct unwind_state {
	uint64_t pc, sp, fp;
	uint64_t gpr[16]; /* by DWARF number; only while registers_known, but rbx while bx_known */
	uint32_t registers_known; /* the frame was interrupted, not called: all registers are those
				     of the frame */
	uint32_t bx_known; /* rbx is that of the frame: some hand-written code has its CFA there */
	uint32_t mapping_slab, mapping_offset, mapping_count;
	uint32_t frame_count;
	/* Of the frames so far, each with all its words hashed with its place in the stack and a
	 * secret: none depends on what came before, so that the multiplications overlap. */
	uint64_t stack_sum, stack_key;
	uint64_t rule_position; /* in the cache, of the rule of the frame before */
	struct bh_mapping last; /* the mapping of the frame before */
	/* Where in a list of mappings that of a page was found, by a hash of the page: modules that
	 * call each other need not search. Whether it is there is looked at. */
	uint16_t hints[1 << MAPPING_HINT_BITS];
	uint64_t window_start;
	uint64_t window[STACK_WINDOW_WORDS]; /* a copy of the stack from window_start on */
	struct unwind_runtime runtime;
	/* The record under construction: what goes into the ring is one piece from here on. */
	struct bh_sample header;
	uint64_t frames[BH_FRAMES_ROOM];
};

/* No frame yet. */
static __always_inline void unwind_clear_frames(struct unwind_state *s)
{
	s->frame_count = 0;
	s->stack_sum = 0;
}

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
	s->runtime.verdict = WALKER_MOVED;
	s->runtime.resume = WALKER_AT_FRAME;
	s->runtime.method_position = 0;
	s->runtime.pending_next = 0;
	s->runtime.pending_count = 0;
	s->runtime.code_filters[0].bytes = 0;
	s->runtime.code_filters[1].bytes = 0;
}

#endif
