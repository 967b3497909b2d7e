/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibonacci hashing: multiplication by 2^64 / golden ratio spreads neighbouring integers evenly
 * (Knuth, The Art of Computer Programming 3, 6.4). The upper bits of a product depend on all bits
 * of the key, the lower bits only on the key's lower bits: a bucket number comes from the top.
 *
 * This is for keys that an attacker gains nothing by choosing, since a bad distribution costs time
 * in a bounded search only. Tables whose chains can grow use a seeded XXH3 instead.
 */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 2^64 divided by the golden ratio, rounded to an odd number. */
#define HASH_GOLDEN_RATIO UINT64_C(0x9e3779b97f4a7c15)

/* Spreads a key over all 64 bits. */
static inline uint64_t hash_spread(uint64_t key)
{
	return key * HASH_GOLDEN_RATIO;
}

/* Returns the bucket of a key in a table of 2^bits buckets; `bits` is 1 to 64. */
static inline uint64_t hash_bucket(uint64_t key, unsigned int bits)
{
	return hash_spread(key) >> (64 - bits);
}

/* Adds one word to the hash of a sequence of words, which starts with 0. */
static inline uint64_t hash_combine(uint64_t hash, uint64_t word)
{
	hash = hash_spread(hash ^ word);
	return hash ^ hash >> 32;
}

/* Adds `length` bytes to it. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
		uint64_t word = 0;

		memcpy(&word, (const char *)bytes + at,
		       length - at < sizeof(word) ? length - at : sizeof(word));
		hash = hash_combine(hash, word);
	}
	return hash_combine(hash, length);
}

#endif
