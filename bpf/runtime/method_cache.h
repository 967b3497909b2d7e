/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * What walkers know of methods, by address, of all processes: code objects, return addresses into
 * compiled code. Each read of a process's memory costs as much as the walk of two native frames,
 * and whether a method is still the one that was there needs one or two of them; a stack has
 * dozens.
 *
 * So a method that was found the same at checks VALIDATE_AGE apart counts as steady, and is looked
 * at again only after VALIDATE_INTERVAL: what took its place would have its name that long, on one
 * CPU. What comes and goes never gets steady, and is looked at each time, and so is a stack's
 * innermost managed frame, whatever it is.
 *
 * Entries lie in the order in which stacks were first walked, as in struct rule_cache. Who includes
 * this defines METHOD_CACHE_BITS before, and behind it env_method_cache(env): the cache, or NULL.
 */
#ifndef BPF_RUNTIME_METHOD_CACHE_H
#define BPF_RUNTIME_METHOD_CACHE_H

#include "bpf/shared.h"

enum {
	METHOD_CACHE_ENTRIES = 1 << METHOD_CACHE_BITS,
	/* Times are in units of 2^20 ns, about a millisecond. */
	METHOD_CACHE_TIME_BITS = 20,
	VALIDATE_AGE = 2048,
	VALIDATE_INTERVAL = 256,
};

struct method_cache_entry {
	uint64_t key;	   /* 0: empty */
	uint32_t since;	   /* the last time it was learned or found to be another */
	uint32_t until;	   /* the end of the time for which it is steady */
	uint32_t facts[4]; /* the runtime's own */
};
BH_ASSERT_SIZE(struct method_cache_entry, 32);

struct method_cache {
	uint32_t added; /* in all; the next goes to this place, modulo METHOD_CACHE_ENTRIES */
	/* Places of entries, by a hash of the key: of those that share a pair, the last two. */
	uint16_t index[METHOD_CACHE_ENTRIES][2];
	struct method_cache_entry entries[METHOD_CACHE_ENTRIES];
};

static __always_inline uint16_t *method_cache_index(struct method_cache *cache, uint64_t key)
{
	return cache->index[(key * HASH_MULTIPLIER) >> (64 - METHOD_CACHE_BITS)];
}

static __always_inline uint32_t method_cache_now(const struct unwind_state *s)
{
	return (uint32_t)(s->header.time_ns >> METHOD_CACHE_TIME_BITS);
}

/* What is known of `address` in the process of the sample, or NULL. Asked for again it is the same
 * entry, also if only the order leads there: who learned it anew would never find it steady, and
 * push others out. */
static __always_inline struct method_cache_entry *
method_cache_find(struct unwind_state *s, struct method_cache *cache, uint64_t address)
{
	const uint64_t key = address ^ s->runtime.method_key;
	uint64_t place = bits_mask(s->runtime.method_position + 1, METHOD_CACHE_ENTRIES - 1);

	if (!cache)
		return NULL;
	if (cache->entries[place].key != key)
		place = bits_mask(s->runtime.method_position, METHOD_CACHE_ENTRIES - 1);
	if (cache->entries[place].key != key) {
		const uint16_t *index = method_cache_index(cache, key);

		place = bits_mask(index[0], METHOD_CACHE_ENTRIES - 1);
		if (cache->entries[place].key != key)
			place = bits_mask(index[1], METHOD_CACHE_ENTRIES - 1);
		if (cache->entries[place].key != key)
			return NULL;
	}
	s->runtime.method_position = place;
	return &cache->entries[place];
}

/* Need it not be looked at now? */
static __always_inline int method_cache_is_trusted(const struct unwind_state *s,
						   const struct method_cache_entry *known)
{
	return s->runtime.managed_frames &&
	       known->until - method_cache_now(s) - 1 < VALIDATE_INTERVAL;
}

/* It was looked at: is it the `same` as what is known? */
static __always_inline void method_cache_revalidate(const struct unwind_state *s,
						    struct method_cache_entry *known, int same)
{
	const uint32_t now = method_cache_now(s);

	if (!same)
		known->since = now;
	known->until = now - known->since >= VALIDATE_AGE ? now + VALIDATE_INTERVAL : now;
}

/* An entry for what is not known yet, in place of the oldest; NULL without a cache. Its facts are
 * to be written by the caller. */
static __always_inline struct method_cache_entry *
method_cache_insert(struct unwind_state *s, struct method_cache *cache, uint64_t address)
{
	const uint64_t key = address ^ s->runtime.method_key;

	if (!cache)
		return NULL;
	const uint64_t place = bits_mask(cache->added++, METHOD_CACHE_ENTRIES - 1);
	struct method_cache_entry *known = &cache->entries[place];

	known->key = key;
	method_cache_revalidate(s, known, 0);
	ring_index_insert(method_cache_index(cache, key), place);
	s->runtime.method_position = place;
	return known;
}

#endif
