/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* The list of frames of a stack. */
#ifndef BPF_UNWIND_PUSH_H
#define BPF_UNWIND_PUSH_H

#include "bpf/unwind/state.h"

static __always_inline uint64_t walk_hash(const struct walk_state *s, uint64_t frame, uint64_t at)
{
	const uint64_t hash = (frame ^ (s->stack_key + at * WALK_SPREAD)) * WALK_SPREAD;

	return hash ^ hash >> 32;
}

/* Does a stack have room for a word behind `count` others? Asked so that the verifier learns
 * nothing of the count: in a loop it would follow each that there may be. */
static __always_inline int walk_has_room(uint64_t count)
{
	return !walk_masked(count, ~(BH_USER_FRAMES_MAX - 1ull));
}

static __always_inline void walk_note(struct walk_state *s, uint64_t frame)
{
	s->frames[walk_masked(s->frame_count, BH_USER_FRAMES_MAX - 1)] = frame;
	s->stack_sum += walk_hash(s, frame, s->frame_count);
	s->frame_count++;
}

/* Forget the frames noted since. */
static __always_inline void walk_rewind(struct walk_state *s, const struct walk_mark *mark)
{
	s->frame_count = mark->count;
	s->stack_sum = mark->sum;
}

/* The managed frame `frame`, with `extra` words behind it; the caller has seen to the room. */
static __always_inline void walk_put_managed(struct walk_state *s, uint64_t frame,
					     unsigned int extra, const uint64_t *words)
{
	const uint32_t count = s->frame_count;
	uint64_t all = frame;

	s->frames[walk_masked(count, BH_USER_FRAMES_MAX - 1)] = frame;
	for (unsigned int i = 0; i < extra && i < BH_MANAGED_EXTRA_MAX; i++) {
		s->frames[walk_masked(count + 1 + i, BH_USER_FRAMES_MAX - 1)] = words[i];
		all = all * WALK_SPREAD + words[i];
	}
	s->stack_sum += walk_hash(s, all, count);
	s->frame_count = count + 1 + extra;
	s->runtime.frames++;
}

/* A managed frame with `extra` words behind its first. 0, or BH_REASON_TOO_DEEP. */
static __always_inline int walk_note_managed(struct walk_state *s, unsigned int runtime,
					     uint64_t payload, unsigned int extra,
					     const uint64_t *words)
{
	if (!walk_has_room(s->frame_count + extra))
		return BH_REASON_TOO_DEEP;
	walk_put_managed(s, bh_frame_managed(runtime, payload, extra), extra, words);
	return 0;
}

/*
 * For a runtime's walker whose frames stand for one native frame each: it may note the frames that
 * stand for the next native ones in its ranges too (walk_note_ahead); the walk goes over those
 * without a call. May it now? Not while another block's wait.
 */
static __always_inline int walk_begin_ahead(struct walk_state *s)
{
	struct walk_runtime *r = &s->runtime;

	if (r->ahead_next != r->ahead_count)
		return 0;
	r->ahead_next = 0;
	r->ahead_count = 0;
	r->ahead_runtime = r->runtime;
	r->ahead_block = r->block;
	r->ahead_start = r->range_start;
	r->ahead_end = r->range_end;
	return 1;
}

/* The managed frame, with one word behind its first, for the next native one. At most
 * WALK_AHEAD_FRAMES after walk_begin_ahead. */
static __always_inline void walk_note_ahead(struct walk_state *s, uint64_t payload, uint64_t extra)
{
	struct walk_runtime *r = &s->runtime;
	struct walk_ahead *ahead = &r->ahead[walk_masked(r->ahead_count, WALK_AHEAD_FRAMES - 1)];

	ahead->frame = bh_frame_managed(r->runtime, payload, 1);
	ahead->extra = extra;
	r->ahead_count++;
}

/* Note the next frame noted ahead: the walk is at a native one in its ranges. 0 if there is
 * none, or no room for it. */
static __always_inline int walk_take_ahead(struct walk_state *s)
{
	struct walk_runtime *r = &s->runtime;

	if (r->ahead_next == r->ahead_count || !walk_has_room(s->frame_count + 1))
		return 0;
	const struct walk_ahead *ahead =
	    &r->ahead[walk_masked(r->ahead_next++, WALK_AHEAD_FRAMES - 1)];

	walk_put_managed(s, ahead->frame, 1, &ahead->extra);
	r->passed = WALK_PASSED_NOTED;
	return 1;
}

#endif
