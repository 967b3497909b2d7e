/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Where each thread of a process keeps the value of one key of pthread_getspecific(3), relative to
 * its thread pointer. symbolizer/runtime/thread_keys.h finds the place.
 *
 * Example (glibc): the third key has its value at thread pointer + 0x310 + 2 * 16 + 8, so `first`
 * is 0x338. The 40th one is in the second block of keys, to which the word at thread pointer +
 * 0x518 leads: `indirect` is 1, `first` is 0x518, and `second` is 7 * 16 + 8 = 0x78.
 */
#ifndef BPF_RUNTIME_THREAD_KEY_H
#define BPF_RUNTIME_THREAD_KEY_H

#include "bpf/shared.h"

enum {
	/* In which the value of a key may be, if only its number is known: one place for each C
	 * library that the process may have. */
	THREAD_KEY_PLACES = 2,
};

struct thread_key {
	uint32_t indirect; /* there is a pointer at `first`, and the value is `second` bytes after
			      the address that it points to */
	uint32_t first, second;
};

#endif
