/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* Arithmetic of the walker: branch-free comparison and choice, masks, hashes. */
#ifndef BPF_UNWIND_BITS_H
#define BPF_UNWIND_BITS_H

#include "bpf/shared.h"

#ifdef __clang__
#define UNWIND_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNWIND_NO_UNROLL
#endif

/* Odd, its bits well mixed (2^64 / golden ratio): the high bits of a product depend on all of the
 * other factor's. */
#define HASH_MULTIPLIER 0x9e3779b97f4a7c15ull

/* All ones if a <= b, else 0. Both are below 2^63. */
static __always_inline uint64_t bits_below_or_equal(uint64_t a, uint64_t b)
{
	return (uint64_t)((int64_t)(a - b - 1) >> 63);
}

/* Masked where it is used, as the verifier wants it, whatever the compiler knows of `index`. */
static __always_inline uint64_t bits_mask(uint64_t index, uint64_t mask)
{
	__asm__("" : "+r"(index));
	return index & mask;
}

static __always_inline uint64_t bits_slab_offset(uint64_t offset, uint64_t align)
{
	return offset & (BH_SLAB_BYTES - 1) & ~(align - 1);
}

/* If the lowest bit of `choice` is set b, else a. */
static __always_inline uint64_t bits_choose(uint64_t choice, uint64_t a, uint64_t b)
{
	return a ^ ((a ^ b) & -(choice & 1));
}

#endif
