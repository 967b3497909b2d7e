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

/* Moves the window so that it starts at `start`, a multiple of 8, or ends with the page of that. In
 * both cases it contains what lies from `start` to `end`, at most 2 KiB. Returns 0 if that cannot
 * be read, and then there is no window. */
static __always_inline int stack_move_window(struct unwind_state *s, UNWIND_ENV env, uint64_t start,
					     uint64_t end)
{
	const uint64_t page_end = (start | 4095) + 1;
	const uint64_t last_start = page_end - sizeof(s->window);
	uint64_t *known = &s->stack_ends[(page_end * HASH_MULTIPLIER) >> (64 - STACK_ENDS_BITS)];
	const int may_move = start > last_start && end <= page_end;

	s->window_start = start;
	if (may_move && *known == page_end)
		s->window_start = last_start;
	if (!env_read(env, s->window, sizeof(s->window), s->window_start))
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
#define STACK_MOVE_WINDOW(s, env, start, end) stack_move_window(s, env, start, end)
#endif

/* Returns the index in the window of the word at `address`, after which `count` words (a constant)
 * are in the window. Returns STACK_NO_WORDS if they cannot be read. */
static __always_inline uint64_t stack_window_at(struct unwind_state *s, UNWIND_ENV env,
						uint64_t address, const unsigned int count)
{
	if (address & 7)
		return STACK_NO_WORDS;
	if (address - s->window_start > (STACK_WINDOW_WORDS - count) * 8 &&
	    !STACK_MOVE_WINDOW(s, env, address, address + count * 8))
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
	const uint64_t reach = (STACK_WINDOW_WORDS - 1) * 8;
	uint64_t start = near & ~7ull;

	if (address & 7)
		return env_read(env, value, 8, address) ? BH_REASON_READ_FAULT : UNWIND_CONTINUE;
	if (address - start > reach)
		start = address;
	if (address - s->window_start > reach && !STACK_MOVE_WINDOW(s, env, start, address + 8))
		return env_read(env, value, 8, address) ? BH_REASON_READ_FAULT : UNWIND_CONTINUE;
	*value = s->window[((address - s->window_start) >> 3) & (STACK_WINDOW_WORDS - 1)];
	return UNWIND_CONTINUE;
}

#endif
