/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Arithmetic that the verifier can follow: masks, a comparison and a choice without branches, and
 * the multiplier of all hashes.
 *
 * The verifier follows both sides of every branch whose condition it does not know. A binary search
 * with one such branch in each of its 10 rounds would have 2^10 paths. Therefore searches turn a
 * comparison into a mask (bits_below_or_equal), and every index is masked to the size of its array
 * (bits_mask), so that no bound has to be proved.
 */
#ifndef BPF_UNWIND_BITS_H
#define BPF_UNWIND_BITS_H

#include "bpf/shared.h"

/* Before a loop that the verifier shall see once. An unrolled loop would be verified piece by
 * piece, and can exceed the size of a program. */
#ifdef __clang__
#define UNWIND_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNWIND_NO_UNROLL
#endif

/* 2^64 divided by the golden ratio, odd (Knuth, The Art of Computer Programming 3, 6.4). The high
 * bits of a product with it depend on all bits of the other factor. */
#define HASH_MULTIPLIER 0x9e3779b97f4a7c15ull

/* Returns all ones if a <= b, and 0 otherwise. Both must be below 2^63. */
static __always_inline uint64_t bits_below_or_equal(uint64_t a, uint64_t b)
{
	return (uint64_t)((int64_t)(a - b - 1) >> 63);
}

/* Returns `index` & `mask`. The asm statement hides from the compiler what it knows about the
 * index. Otherwise the compiler may omit the masking as useless, but the verifier needs it at the
 * place where the index is used. */
static __always_inline uint64_t bits_mask(uint64_t index, uint64_t mask)
{
	__asm__("" : "+r"(index));
	return index & mask;
}

/* Returns `offset` limited to a slab and aligned down to `align`, which is a power of two. */
static __always_inline uint64_t bits_slab_offset(uint64_t offset, uint64_t align)
{
	return offset & (BH_SLAB_BYTES - 1) & ~(align - 1);
}

/* Returns b if the lowest bit of `choice` is set, and a otherwise. */
static __always_inline uint64_t bits_choose(uint64_t choice, uint64_t a, uint64_t b)
{
	return a ^ ((a ^ b) & -(choice & 1));
}

#endif
