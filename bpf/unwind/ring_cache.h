/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The template of the caches of the unwinder: a ring of entries with a two-way index.
 *
 * How this works. Entries are added to a ring, in the order in which stacks were first walked. The
 * newest entry replaces the oldest. A walk that repeats an earlier one needs the entries in the
 * same order, so the next one is mostly right after the last one. That is where a search looks
 * first. It needs no hash, and memory that is not in the processor's caches is read in sequence.
 *
 * If the key is not there, the index decides. It maps a hash of the key to a pair of positions,
 * those of the last two entries with that hash. Two frames that a recursion repeats can therefore
 * share a hash without evicting each other.
 *
 * Example: the walk of the stack g, f, main (leaf first) adds them at the positions 10, 11 and 12.
 * The next walk of that stack finds g through the index, and then f and main at 11 and 12 without
 * it. A walk of the stack h, f adds h at 13, does not find f at 14, and finds it through the index
 * at 11.
 *
 * An entry may be stale or belong to another key: the user of the cache compares the key. The key 0
 * means that the entry is empty or must not be found.
 */
#ifndef BPF_UNWIND_RING_CACHE_H
#define BPF_UNWIND_RING_CACHE_H

#include "bpf/unwind/bits.h"

/*
 * RING_CACHE_DEFINE(NAME, BITS) defines struct NAME with 2^BITS entries of type struct NAME_entry,
 * which has been defined before and has a member `uint64_t key`. It defines three functions:
 *
 * - NAME_pair(cache, key) returns the pair of positions in the index for the key.
 * - NAME_position(cache, last, key, also_last) returns the position of the entry with the key, if
 *   there is one, and otherwise that of another entry: the caller compares the key. `last` is the
 *   position of the entry that was used last. `also_last`, a constant, says whether that entry
 *   itself may be asked for again.
 * - NAME_add(cache, key) replaces the oldest entry by one with the key, and returns its position.
 */
#define RING_CACHE_DEFINE(name, bits)                                                              \
	struct name {                                                                              \
		uint32_t added; /* entries ever added; the next goes to this position */           \
		uint16_t index[1 << (bits)][2];                                                    \
		struct name##_entry entries[1 << (bits)];                                          \
	};                                                                                         \
                                                                                                   \
	static __always_inline uint16_t *name##_pair(struct name *cache, uint64_t key)             \
	{                                                                                          \
		return cache->index[(key * HASH_MULTIPLIER) >> (64 - (bits))];                     \
	}                                                                                          \
                                                                                                   \
	static __always_inline uint64_t name##_position(struct name *cache, uint64_t last,         \
							uint64_t key, const int also_last)         \
	{                                                                                          \
		const uint64_t mask = (1 << (bits)) - 1;                                           \
		uint64_t position = bits_mask(last + 1, mask);                                     \
                                                                                                   \
		if (cache->entries[position].key == key)                                           \
			return position;                                                           \
		if (also_last) {                                                                   \
			position = bits_mask(last, mask);                                          \
			if (cache->entries[position].key == key)                                   \
				return position;                                                   \
		}                                                                                  \
		const uint16_t *pair = name##_pair(cache, key);                                    \
		position = bits_mask(pair[0], mask);                                               \
		if (cache->entries[position].key == key)                                           \
			return position;                                                           \
		return bits_mask(pair[1], mask);                                                   \
	}                                                                                          \
                                                                                                   \
	static __always_inline uint64_t name##_add(struct name *cache, uint64_t key)               \
	{                                                                                          \
		const uint64_t position = bits_mask(cache->added++, (1 << (bits)) - 1);            \
		uint16_t *pair = name##_pair(cache, key);                                          \
                                                                                                   \
		cache->entries[position].key = key;                                                \
		pair[1] = pair[0];                                                                 \
		pair[0] = (uint16_t)position;                                                      \
		return position;                                                                   \
	}

#endif
