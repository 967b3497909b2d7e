/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* Words of the stack, through a window that is copied at once. */
#ifndef BPF_UNWIND_STACK_H
#define BPF_UNWIND_STACK_H

#include "bpf/unwind/state.h"

/* A word of the stack, out of the window if it is there, else the window moves so that it begins at
 * `near` (the frame's stack pointer). */
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
			/* Near the end of the stack's mapping: only what is needed. */
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
