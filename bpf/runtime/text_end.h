/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* What distinguishes a text from others, if the runtime has no hash of it: its length and its end,
 * because names that are made one after the other mostly differ there. */
#ifndef BPF_RUNTIME_TEXT_END_H
#define BPF_RUNTIME_TEXT_END_H

#include "bpf/runtime/frame_word.h"

enum {
	TEXT_END_BYTES = 16
};

/* Returns where the end of a text starts, of which TEXT_END_BYTES bytes are read. */
static inline uint64_t text_end_of(uint64_t length)
{
	return length > TEXT_END_BYTES ? length - TEXT_END_BYTES : 0;
}

/* Returns the hash of a text by its length and its end. What follows a shorter text does not
 * count. */
static inline uint64_t text_end_hash(uint64_t length, const uint64_t end[TEXT_END_BYTES / 8])
{
	const uint64_t first = length >= 8 ? end[0] : end[0] & ((1ull << length * 8) - 1);
	const uint64_t second = length >= 16  ? end[1]
				: length <= 8 ? 0
					      : end[1] & ((1ull << (length - 8) * 8) - 1);

	return frame_word_hash(length, first, second);
}

#endif
