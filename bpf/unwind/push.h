/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The list of frames of a stack, and the sum from which its id is made.
 *
 * A native frame is one word. A managed frame is one word and up to seven extra words. Each frame
 * adds a hash of its words and its position to `stack_sum`. Frames are only appended; push_rewind()
 * removes those after a mark.
 *
 * Pending frames. A walker is a function that the verifier checks separately, and each call of it
 * costs time. An interpreter with one managed frame for each native frame of its loop would be
 * called for each of them. Instead its walker pushes the frame for the present native frame, and up
 * to eight more as pending frames. When the unwinder reaches the next native frame in a range of
 * the same block, it takes the next pending frame, and does not call the walker.
 *
 * Example: the native stack is eval, call, eval, call, eval, main, and the walker of eval finds the
 * managed frames leaf, middle, top. It pushes leaf and gives the verdict REPLACED. It adds middle
 * and top as pending frames. The list becomes: leaf, call, middle, call, top, main.
 */
#ifndef BPF_UNWIND_PUSH_H
#define BPF_UNWIND_PUSH_H

#include "bpf/unwind/state.h"

/* Returns the hash of a frame at position `at` of the list. */
static __always_inline uint64_t push_hash_frame(const struct unwind_state *s, uint64_t frame,
						uint64_t at)
{
	const uint64_t hash = (frame ^ (s->stack_key + at * HASH_MULTIPLIER)) * HASH_MULTIPLIER;

	return hash ^ hash >> 32;
}

/* Returns whether there is room for one more word after `count` words. It is computed by a mask, so
 * that the verifier learns nothing about the count. Otherwise it would follow each possible count
 * in a loop. */
static __always_inline int push_has_room(uint64_t count)
{
	return !bits_mask(count, ~(BH_USER_FRAMES_MAX - 1ull));
}

/* Appends a native frame. The caller has checked that there is room. */
static __always_inline void push_native(struct unwind_state *s, uint64_t frame)
{
	s->frames[bits_mask(s->frame_count, BH_USER_FRAMES_MAX - 1)] = frame;
	s->stack_sum += push_hash_frame(s, frame, s->frame_count);
	s->frame_count++;
}

/* Removes the frames that were pushed after the mark. */
static __always_inline void push_rewind(struct unwind_state *s, const struct frame_mark *mark)
{
	s->frame_count = mark->count;
	s->stack_sum = mark->sum;
}

/* Appends a managed frame and its `extra` words. The caller has checked that there is room. */
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

/* Appends a managed frame of `runtime` with `extra` words after its first one. Returns 0, or
 * BH_REASON_TOO_DEEP if there is no room. */
static __always_inline int push_managed(struct unwind_state *s, unsigned int runtime,
					uint64_t payload, unsigned int extra, const uint64_t *words)
{
	if (!push_has_room(s->frame_count + extra))
		return BH_REASON_TOO_DEEP;
	push_managed_words(s, bh_frame_managed(runtime, payload, extra), extra, words);
	return 0;
}

/* Starts a list of pending frames for the block of the present range. Returns 1, or 0 if frames of
 * an earlier list are still waiting: then none may be added. */
static __always_inline int pending_begin(struct unwind_state *s)
{
	struct unwind_runtime *r = &s->runtime;
	struct pending_frames *pending = &r->pending;

	if (pending->next != pending->count)
		return 0;
	pending->next = 0;
	pending->count = 0;
	pending->runtime = r->id;
	pending->block = r->block;
	pending->start = r->range_start;
	pending->end = r->range_end;
	return 1;
}

/* Adds a managed frame with one extra word, which will replace the next native frame without one.
 * At most PENDING_FRAMES_MAX of them may be added after pending_begin(). */
static __always_inline void pending_push(struct unwind_state *s, uint64_t payload, uint64_t extra)
{
	struct pending_frames *pending = &s->runtime.pending;
	const uint64_t at = bits_mask(pending->count, PENDING_FRAMES_MAX - 1);

	pending->frames[at].frame = bh_frame_managed(s->runtime.id, payload, 1);
	pending->frames[at].extra = extra;
	pending->count++;
}

/* Moves the next pending frame to the list of frames. The walk is at a native frame in a range of
 * its block, which it replaces. Returns 0 if no frame is pending or there is no room. */
static __always_inline int pending_pop(struct unwind_state *s)
{
	struct pending_frames *pending = &s->runtime.pending;

	if (pending->next == pending->count || !push_has_room(s->frame_count + 1))
		return 0;
	const uint64_t at = bits_mask(pending->next++, PENDING_FRAMES_MAX - 1);

	push_managed_words(s, pending->frames[at].frame, 1, &pending->frames[at].extra);
	s->runtime.verdict = WALKER_REPLACED;
	return 1;
}

#endif
