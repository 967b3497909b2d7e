/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Words of the stack, read through a window.
 *
 * A read of the process's memory costs as much as the unwinding of two native frames. Therefore a
 * read copies 2 KiB at once (the window), and the next frames find their words in it.
 */
#ifndef BPF_UNWIND_STACK_H
#define BPF_UNWIND_STACK_H

#include "bpf/unwind/state.h"

enum {
	STACK_NO_WORDS = 0xffff /* no index into the window */
};

/* Returns the index in the window of the word at `address`, after which `count` words (a constant)
 * are in the window. Returns STACK_NO_WORDS if they cannot be read. */
static __always_inline uint64_t stack_window_at(struct unwind_state *s, UNWIND_ENV env,
						uint64_t address, const unsigned int count)
{
	const uint64_t distance = address - s->window_start;

	if (address & 7)
		return STACK_NO_WORDS;
	if (distance <= (STACK_WINDOW_WORDS - count) * 8)
		return distance >> 3;
	s->window_start = address;
	if (env_read(env, s->window, sizeof(s->window), address)) {
		/* The window would reach beyond the end of the mapping: read what is needed. */
		s->window_start = STACK_NO_WINDOW;
		if (env_read(env, s->window, count * 8, address))
			return STACK_NO_WORDS;
	}
	return 0;
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
	uint64_t distance = address - s->window_start;

	if (distance > reach || (distance & 7)) {
		uint64_t start = near & ~7ull;

		if (address - start > reach)
			start = address & ~7ull;
		if (address & 7)
			return env_read(env, value, 8, address) ? BH_REASON_READ_FAULT
								: UNWIND_CONTINUE;
		if (env_read(env, s->window, sizeof(s->window), start)) {
			/* The window would reach beyond the end of the mapping: read one word. */
			s->window_start = STACK_NO_WINDOW;
			return env_read(env, value, 8, address) ? BH_REASON_READ_FAULT
								: UNWIND_CONTINUE;
		}
		s->window_start = start;
		distance = address - start;
	}
	*value = s->window[(distance >> 3) & (STACK_WINDOW_WORDS - 1)];
	return UNWIND_CONTINUE;
}

#endif
