/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * What walkers know of methods, by address, of all processes: code objects, return addresses into
 * compiled code. Each read of a process's memory costs as much as the walk of two native frames,
 * and whether a method is still the one that was there needs one or two of them; a stack has
 * dozens.
 *
 * So a method that was found the same at checks WALK_STEADY apart counts as steady, and is looked
 * at again only after WALK_PATIENCE: what took its place would have its name that long, on one CPU.
 * What comes and goes never gets steady, and is looked at each time, and so is a stack's innermost
 * managed frame, whatever it is.
 *
 * Entries lie in the order in which stacks were first walked, as in struct walk_cache. Who includes
 * this defines WALK_KNOWN_BITS before, and behind it walk_known(env): the cache, or NULL.
 */
#ifndef BPF_RUNTIME_KNOWN_H
#define BPF_RUNTIME_KNOWN_H

#include "bpf/shared.h"

enum {
	WALK_KNOWN_MAX = 1 << WALK_KNOWN_BITS,
	/* Times are in units of 2^20 ns, about a millisecond. */
	WALK_KNOWN_TIME_BITS = 20,
	WALK_STEADY = 2048,
	WALK_PATIENCE = 256,
};

struct walk_known {
	uint64_t key;	   /* 0: empty */
	uint32_t since;	   /* the last time it was learned or found to be another */
	uint32_t until;	   /* the end of the time for which it is steady */
	uint32_t facts[4]; /* the runtime's own */
};
BH_ASSERT_SIZE(struct walk_known, 32);

struct walk_known_cache {
	uint32_t added; /* in all; the next goes to this place, modulo WALK_KNOWN_MAX */
	/* Places of entries, by a hash of the key: of those that share a pair, the last two. */
	uint16_t index[WALK_KNOWN_MAX][2];
	struct walk_known entries[WALK_KNOWN_MAX];
};

static __always_inline uint16_t *walk_known_index(struct walk_known_cache *cache, uint64_t key)
{
	return cache->index[(key * WALK_SPREAD) >> (64 - WALK_KNOWN_BITS)];
}

static __always_inline uint32_t walk_known_now(const struct walk_state *s)
{
	return (uint32_t)(s->header.time_ns >> WALK_KNOWN_TIME_BITS);
}

/* What is known of `address` in the process of the sample, or NULL. Asked for again it is the same
 * entry, also if only the order leads there: who learned it anew would never find it steady, and
 * push others out. */
static __always_inline struct walk_known *
walk_find_known(struct walk_state *s, struct walk_known_cache *cache, uint64_t address)
{
	const uint64_t key = address ^ s->runtime.known_key;
	uint64_t place = walk_masked(s->runtime.known_place + 1, WALK_KNOWN_MAX - 1);

	if (!cache)
		return NULL;
	if (cache->entries[place].key != key)
		place = walk_masked(s->runtime.known_place, WALK_KNOWN_MAX - 1);
	if (cache->entries[place].key != key) {
		const uint16_t *index = walk_known_index(cache, key);

		place = walk_masked(index[0], WALK_KNOWN_MAX - 1);
		if (cache->entries[place].key != key)
			place = walk_masked(index[1], WALK_KNOWN_MAX - 1);
		if (cache->entries[place].key != key)
			return NULL;
	}
	s->runtime.known_place = place;
	return &cache->entries[place];
}

/* Need it not be looked at now? */
static __always_inline int walk_is_steady(const struct walk_state *s,
					  const struct walk_known *known)
{
	return s->runtime.frames && known->until - walk_known_now(s) - 1 < WALK_PATIENCE;
}

/* It was looked at: is it the `same` as what is known? */
static __always_inline void walk_confirm(const struct walk_state *s, struct walk_known *known,
					 int same)
{
	const uint32_t now = walk_known_now(s);

	if (!same)
		known->since = now;
	known->until = now - known->since >= WALK_STEADY ? now + WALK_PATIENCE : now;
}

/* An entry for what is not known yet, in place of the oldest; NULL without a cache. Its facts are
 * to be written by the caller. */
static __always_inline struct walk_known *
walk_learn(struct walk_state *s, struct walk_known_cache *cache, uint64_t address)
{
	const uint64_t key = address ^ s->runtime.known_key;

	if (!cache)
		return NULL;
	const uint64_t place = walk_masked(cache->added++, WALK_KNOWN_MAX - 1);
	struct walk_known *known = &cache->entries[place];

	known->key = key;
	walk_confirm(s, known, 0);
	walk_index_add(walk_known_index(cache, key), place);
	s->runtime.known_place = place;
	return known;
}

#endif
