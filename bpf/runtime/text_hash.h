/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * What distinguishes a text from others, if the runtime has no hash of it: its length, its first
 * word and its end. Names that are made one after the other mostly differ at the end. Where memory
 * was freed and is used again, the first word mostly is another one: of something else, or of a
 * list of free memory.
 */
#ifndef BPF_RUNTIME_TEXT_HASH_H
#define BPF_RUNTIME_TEXT_HASH_H

#include "bpf/runtime/frame_word.h"

enum {
	TEXT_END_BYTES = 16
};

/* Returns where the end of a text starts, of which TEXT_END_BYTES bytes are read. */
static inline uint64_t text_end_of(uint64_t length)
{
	return length > TEXT_END_BYTES ? length - TEXT_END_BYTES : 0;
}

/* Returns the hash of a text. `start` are its first 8 bytes, which do not count if they are a part
 * of the end. Neither does what follows a shorter text. */
static inline uint64_t text_hash(uint64_t length, uint64_t start,
				 const uint64_t end[TEXT_END_BYTES / 8])
{
	const uint64_t first = length >= 8 ? end[0] : end[0] & ((1ull << length * 8) - 1);
	const uint64_t second = length >= 16  ? end[1]
				: length <= 8 ? 0
					      : end[1] & ((1ull << (length - 8) * 8) - 1);

	return frame_word_hash(length > TEXT_END_BYTES ? length ^ start : length, first, second);
}

#endif
