/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* The list of frames of a stack. */
#ifndef BPF_UNWIND_PUSH_H
#define BPF_UNWIND_PUSH_H

#include "bpf/unwind/state.h"

static __always_inline uint64_t push_hash_frame(const struct unwind_state *s, uint64_t frame,
						uint64_t at)
{
	const uint64_t hash = (frame ^ (s->stack_key + at * HASH_MULTIPLIER)) * HASH_MULTIPLIER;

	return hash ^ hash >> 32;
}

/* Does a stack have room for a word behind `count` others? Asked so that the verifier learns
 * nothing of the count: in a loop it would follow each that there may be. */
static __always_inline int push_has_room(uint64_t count)
{
	return !bits_mask(count, ~(BH_USER_FRAMES_MAX - 1ull));
}

static __always_inline void push_native(struct unwind_state *s, uint64_t frame)
{
	s->frames[bits_mask(s->frame_count, BH_USER_FRAMES_MAX - 1)] = frame;
	s->stack_sum += push_hash_frame(s, frame, s->frame_count);
	s->frame_count++;
}

/* Forget the frames noted since. */
static __always_inline void push_rewind(struct unwind_state *s, const struct frame_mark *mark)
{
	s->frame_count = mark->count;
	s->stack_sum = mark->sum;
}

/* The managed frame `frame`, with `extra` words behind it; the caller has seen to the room. */
static __always_inline void push_managed_words(struct unwind_state *s, uint64_t frame,
					       unsigned int extra, const uint64_t *words)
{
	const uint32_t count = s->frame_count;
	uint64_t all = frame;

	s->frames[bits_mask(count, BH_USER_FRAMES_MAX - 1)] = frame;
	for (unsigned int i = 0; i < extra && i < BH_MANAGED_EXTRA_MAX; i++) {
		s->frames[bits_mask(count + 1 + i, BH_USER_FRAMES_MAX - 1)] = words[i];
		all = all * HASH_MULTIPLIER + words[i];
	}
	s->stack_sum += push_hash_frame(s, all, count);
	s->frame_count = count + 1 + extra;
	s->runtime.managed_frames++;
}

/* A managed frame with `extra` words behind its first. 0, or BH_REASON_TOO_DEEP. */
static __always_inline int push_managed(struct unwind_state *s, unsigned int runtime,
					uint64_t payload, unsigned int extra, const uint64_t *words)
{
	if (!push_has_room(s->frame_count + extra))
		return BH_REASON_TOO_DEEP;
	push_managed_words(s, bh_frame_managed(runtime, payload, extra), extra, words);
	return 0;
}

/*
 * For a runtime's walker whose frames stand for one native frame each: it may note the frames that
 * stand for the next native ones in its ranges too (pending_push); the walk goes over those
 * without a call. May it now? Not while another block's wait.
 */
static __always_inline int pending_begin(struct unwind_state *s)
{
	struct unwind_runtime *r = &s->runtime;

	if (r->pending_next != r->pending_count)
		return 0;
	r->pending_next = 0;
	r->pending_count = 0;
	r->pending_runtime = r->id;
	r->pending_block = r->block;
	r->pending_start = r->range_start;
	r->pending_end = r->range_end;
	return 1;
}

/* The managed frame, with one word behind its first, for the next native one. At most
 * PENDING_FRAMES_MAX after pending_begin. */
static __always_inline void pending_push(struct unwind_state *s, uint64_t payload, uint64_t extra)
{
	struct unwind_runtime *r = &s->runtime;
	struct pending_frame *ahead =
	    &r->pending[bits_mask(r->pending_count, PENDING_FRAMES_MAX - 1)];

	ahead->frame = bh_frame_managed(r->id, payload, 1);
	ahead->extra = extra;
	r->pending_count++;
}

/* Note the next frame noted ahead: the walk is at a native one in its ranges. 0 if there is
 * none, or no room for it. */
static __always_inline int pending_pop(struct unwind_state *s)
{
	struct unwind_runtime *r = &s->runtime;

	if (r->pending_next == r->pending_count || !push_has_room(s->frame_count + 1))
		return 0;
	const struct pending_frame *ahead =
	    &r->pending[bits_mask(r->pending_next++, PENDING_FRAMES_MAX - 1)];

	push_managed_words(s, ahead->frame, 1, &ahead->extra);
	r->verdict = WALKER_REPLACED;
	return 1;
}

#endif
