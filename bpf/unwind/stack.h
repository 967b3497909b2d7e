/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Words of the stack, read through a window.
 *
 * A read of the process's memory costs as much as the unwinding of two native frames. Therefore a
 * read copies 2 KiB at once (the window), and the next frames find their words in it.
 *
 * The outermost frames of a thread lie near the end of its stack, where 2 KiB more cannot be read.
 * A read that fails costs a microsecond. So the end of the page is remembered, and the next window
 * in that page ends there. It is only a hint: a wrong one makes windows shorter.
 *
 * Example: a stack ends at 0x7ffd2000, and main() has its frame at 0x7ffd1c40. A window from there
 * to 0x7ffd2440 cannot be read. It becomes the one from 0x7ffd1800 to 0x7ffd2000, at once in all
 * later samples.
 */
#ifndef BPF_UNWIND_STACK_H
#define BPF_UNWIND_STACK_H

#include "bpf/unwind/state.h"

enum {
	STACK_NO_WORDS = 0xffff /* no index into the window */
};

/* Moves the window to the words from `address` to `end`, at most 2 KiB. It starts at `near` if they
 * are not too far away from that, otherwise at `address`, or it ends with the page of its start.
 * Returns 0 if the address is no multiple of 8, or the words cannot be read. */
static __always_inline int stack_move_window(struct unwind_state *s, UNWIND_ENV env, uint64_t near,
					     uint64_t address, uint64_t end)
{
	if (address & 7)
		return 0;
	const uint64_t most = sizeof(s->window) - (end - address), aligned = near & ~7ull;
	const uint64_t start = address - aligned <= most ? aligned : address;
	const uint64_t page_end = (start | 4095) + 1;
	const uint64_t last_start = page_end - sizeof(s->window);
	uint64_t *known = &s->stack_ends[(page_end * HASH_MULTIPLIER) >> (64 - STACK_ENDS_BITS)];
	const int may_move = start > last_start && end <= page_end;
	const int is_known = may_move && *known == page_end;

	s->window_start = start;
	if (!is_known && !env_read(env, s->window, sizeof(s->window), start))
		return 1;
	if (may_move) {
		*known = page_end;
		s->window_start = last_start;
		if (!env_read(env, s->window, sizeof(s->window), last_start))
			return 1;
	}
	s->window_start = STACK_NO_WINDOW;
	return 0;
}

/* Moves the window by stack_move_window(). In the kernel, that is in a global function (bpf/env.h),
 * because the verifier would check it again at each place. */
#ifndef STACK_MOVE_WINDOW
#define STACK_MOVE_WINDOW(s, env, near, address, end) stack_move_window(s, env, near, address, end)
#endif

/* Returns the index in the window of the word at `address`. It is too large if that is not in the
 * window, and also if the address is no multiple of 8: these bits become the highest ones. */
static __always_inline uint64_t stack_window_index(const struct unwind_state *s, uint64_t address)
{
	const uint64_t distance = address - s->window_start;

	return distance >> 3 | distance << 61;
}

/* Returns the index in the window of the word at `address`, after which `count` words (a constant)
 * are in the window. Returns STACK_NO_WORDS if they cannot be read. */
static __always_inline uint64_t stack_window_at(struct unwind_state *s, UNWIND_ENV env,
						uint64_t address, const unsigned int count)
{
	if (stack_window_index(s, address) > STACK_WINDOW_WORDS - count &&
	    !STACK_MOVE_WINDOW(s, env, address, address, address + count * 8))
		return STACK_NO_WORDS;
	return (address - s->window_start) >> 3;
}

/* Returns a word of the window. */
static __always_inline uint64_t stack_window_word(const struct unwind_state *s, uint64_t index)
{
	return s->window[bits_mask(index, STACK_WINDOW_WORDS - 1)];
}

/* Sets *value to the word of the stack at `address`. If the word is not in the window, the window
 * is moved to start at `near`, which is the frame's stack pointer, or at the address itself if that
 * is too far away. Returns UNWIND_CONTINUE or BH_REASON_READ_FAULT. */
static __always_inline int stack_read_word(struct unwind_state *s, UNWIND_ENV env, uint64_t near,
					   uint64_t address, uint64_t *value)
{
	if (stack_window_index(s, address) >= STACK_WINDOW_WORDS &&
	    !STACK_MOVE_WINDOW(s, env, near, address, address + 8))
		return env_read(env, value, 8, address) ? BH_REASON_READ_FAULT : UNWIND_CONTINUE;
	*value = stack_window_word(s, (address - s->window_start) >> 3);
	return UNWIND_CONTINUE;
}

#endif
