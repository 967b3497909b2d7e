/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The second word of a managed frame of a runtime that has compiled code: which function it is,
 * what kind of frame, and where in the function.
 *
 * The word is identity << 32 | kind << 28 | position, with 28 bits for the position. Kinds and
 * positions are defined by the runtime (bpf/runtime/NAME.h).
 */
#ifndef BPF_RUNTIME_FRAME_WORD_H
#define BPF_RUNTIME_FRAME_WORD_H

#include "bpf/shared.h"

enum {
	FRAME_WORD_KIND_SHIFT = 28,
	FRAME_WORD_POSITION_MASK = (1 << FRAME_WORD_KIND_SHIFT) - 1,
};

static inline uint64_t frame_word(uint32_t identity, uint32_t kind, uint64_t position)
{
	return (uint64_t)identity << 32 | (uint64_t)(kind << FRAME_WORD_KIND_SHIFT) |
	       (position & FRAME_WORD_POSITION_MASK);
}

static inline uint32_t frame_word_identity(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint32_t frame_word_kind(uint64_t word)
{
	return (uint32_t)word >> FRAME_WORD_KIND_SHIFT;
}

static inline uint32_t frame_word_position(uint64_t word)
{
	return (uint32_t)word & FRAME_WORD_POSITION_MASK;
}

/* Returns an identity: a hash of three numbers that together distinguish a function from others. */
static inline uint32_t frame_word_hash(uint64_t first, uint64_t second, uint64_t third)
{
	uint64_t h = first * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 29 ^ second) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 31 ^ third) * 0x94d049bb133111ebull;
	return (uint32_t)(h >> 32);
}

#endif
