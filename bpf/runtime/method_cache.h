/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The method cache: what walkers have learned about methods, by address, for all processes.
 *
 * How this works. A walker needs an identity for each method it finds on a stack
 * (bpf/runtime/NAME.h): the address alone may belong to another method by the time the worker reads
 * its name. Reading the identity costs one or two reads of the process's memory. Each costs as much
 * as the unwinding of two native frames, and a stack has dozens of methods. So the identity is kept
 * in a ring cache (bpf/unwind/ring_cache.h), by the address of a code object, or by the return
 * address into compiled code.
 *
 * A method found unchanged for VALIDATE_AGE, at checks no more than VALIDATE_GAP apart, is trusted
 * for VALIDATE_INTERVAL. Worst case: for that long, one CPU reports a replaced method under the old
 * name. A method that was replaced is not trusted again before it has been the same for
 * VALIDATE_AGE, so what is short-lived is read each time; also what is executed again every few
 * seconds, while others use its memory in between.
 *
 * The innermost managed frame of a stack is never trusted by its address, because a method that
 * others replace is mostly that one. Walkers of runtimes whose identities need many reads begin
 * with what tells where the texts are, and look for an entry with that as its key
 * (method_cache_mix()). So only a method whose name, file and code replace others of the same size
 * at the same addresses is noticed late.
 *
 * Example, with times in ms. At 1000 the walker finds no entry for the code object at 0x7f00a0,
 * reads its identity, and inserts an entry with changed_at = 1000. It reads the identity again in
 * each sample until 3048: that is VALIDATE_AGE later and the identity is the same, so trusted_until
 * becomes 3304. Until then samples take the identity from the entry. The next sample reads it
 * again. If it is another one, changed_at becomes the present time, and the entry is not trusted.
 *
 * Who includes this header defines METHOD_CACHE_BITS before, and env_method_cache(env) after it.
 * That function returns the cache, or NULL if there is none.
 */
#ifndef BPF_RUNTIME_METHOD_CACHE_H
#define BPF_RUNTIME_METHOD_CACHE_H

#include "bpf/shared.h"
#include "bpf/unwind/ring_cache.h"
#include "bpf/unwind/state.h"

enum {
	METHOD_CACHE_ENTRIES = 1 << METHOD_CACHE_BITS,
	/* Times are in units of 2^20 ns, which is about a millisecond. */
	METHOD_CACHE_TIME_BITS = 20,
	/* The worst case above is VALIDATE_INTERVAL. VALIDATE_AGE keeps it away from methods that
	 * are made and dropped in a loop. tests/e2e/test_python_churn.py measures both. Frequent
	 * methods are checked more often than VALIDATE_GAP, at 20 Hz, too. */
	VALIDATE_AGE = 2048,
	VALIDATE_GAP = 512,
	VALIDATE_INTERVAL = 256,
};

/* How a walker got the identity of a method. */
enum method_learned {
	METHOD_UNREADABLE, /* not at all */
	METHOD_LEARNED,	   /* all that it consists of was read */
	METHOD_RECALLED,   /* the cache had it: for the address, or for what was read first */
};

struct method_cache_entry {
	uint64_t key;		/* address or hash ^ s->runtime.method_key; 0: empty */
	uint32_t changed_at;	/* when it was inserted, or last found to be another method */
	uint32_t trusted_until; /* until when it need not be checked, or when it was checked */
	uint32_t facts[4];	/* what the walker of the runtime keeps */
};
BH_ASSERT_SIZE(struct method_cache_entry, 32);

RING_CACHE_DEFINE(method_cache, METHOD_CACHE_BITS)

/* Returns the time of the sample, in units of the cache. It wraps around after 52 days. */
static __always_inline uint32_t method_cache_now(const struct unwind_state *s)
{
	return (uint32_t)(s->header.time_ns >> METHOD_CACHE_TIME_BITS);
}

/* Returns the entry of `address` in the process of the sample, or NULL. A second call for the same
 * address returns the same entry, even if only the order of entries leads to it. Otherwise a walker
 * would insert the method again each time, which evicts others, and it would never be trusted. */
static __always_inline struct method_cache_entry *
method_cache_find(struct unwind_state *s, struct method_cache *cache, uint64_t address)
{
	const uint64_t key = address ^ s->runtime.method_key;

	if (!cache)
		return NULL;
	const uint64_t position = method_cache_position(cache, s->runtime.method_position, key, 1);
	if (cache->entries[position].key != key)
		return NULL;
	s->runtime.method_position = position;
	return &cache->entries[position];
}

/* Returns `hash` with one more word that was read of a method. A hash of such words may be used in
 * place of an address. */
static __always_inline uint64_t method_cache_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * HASH_MULTIPLIER;
	return hash ^ hash >> 29;
}

/* Returns whether the entry was checked a moment ago. That is enough if it was found by words that
 * were read in this sample. */
static __always_inline int method_cache_is_recent(const struct unwind_state *s,
						  const struct method_cache_entry *entry)
{
	return entry->trusted_until - method_cache_now(s) - 1 < VALIDATE_INTERVAL;
}

/* Returns whether an entry that was found by an address can be used without a check now. */
static __always_inline int method_cache_is_trusted(const struct unwind_state *s,
						   const struct method_cache_entry *entry)
{
	return s->runtime.managed_frames && method_cache_is_recent(s, entry);
}

/* Records the result of a check: whether the method is the `same` as in the entry. If it is not,
 * the stack has code that may be sampled for the first time (bpf/sample/new_code.h). */
static __always_inline void method_cache_revalidate(struct unwind_state *s,
						    struct method_cache_entry *entry, int same)
{
	const uint32_t now = method_cache_now(s);
	/* Negative if it is trusted still, and is checked as that of the innermost frame. */
	const int32_t gap = (int32_t)(now - entry->trusted_until);

	s->runtime.new_code |= !same;
	if (!same || gap > VALIDATE_GAP)
		entry->changed_at = now;
	entry->trusted_until =
	    now - entry->changed_at >= VALIDATE_AGE ? now + VALIDATE_INTERVAL : now;
}

/* Inserts an entry for `address` in place of the oldest one, and returns it. The caller writes its
 * facts. Returns NULL without a cache. */
static __always_inline struct method_cache_entry *
method_cache_insert(struct unwind_state *s, struct method_cache *cache, uint64_t address)
{
	const uint64_t key = address ^ s->runtime.method_key;

	if (!cache)
		return NULL;
	const uint64_t position = method_cache_add(cache, key);
	struct method_cache_entry *entry = &cache->entries[position];

	method_cache_revalidate(s, entry, 0);
	s->runtime.method_position = position;
	return entry;
}

/* Returns the entry of the innermost method of which the words in the hash `seen` were read, or
 * NULL if there is none that was checked a moment ago, or the method is not the innermost one. */
static __always_inline const struct method_cache_entry *
method_cache_recall(struct unwind_state *s, struct method_cache *cache, uint64_t seen)
{
	if (s->runtime.managed_frames)
		return NULL;
	const struct method_cache_entry *entry = method_cache_find(s, cache, seen);

	return entry && method_cache_is_recent(s, entry) ? entry : NULL;
}

/* Records that a method was read, and whether it is the `same` as in its `entry`. Without an entry
 * it gets one. The caller writes the facts of the entry that is returned. Returns NULL without a
 * cache. */
static __always_inline struct method_cache_entry *
method_cache_record(struct unwind_state *s, struct method_cache *cache,
		    struct method_cache_entry *entry, uint64_t address, int same)
{
	if (!entry)
		return method_cache_insert(s, cache, address);
	method_cache_revalidate(s, entry, same);
	return entry;
}

/* Keeps the identity, the first fact, of the innermost method of which the words in the hash `seen`
 * and all others were read. Does nothing with another method. Returns the entry or NULL. */
static __always_inline struct method_cache_entry *method_cache_keep(struct unwind_state *s,
								    struct method_cache *cache,
								    uint64_t seen,
								    uint64_t identity)
{
	if (s->runtime.managed_frames)
		return NULL;
	struct method_cache_entry *entry = method_cache_find(s, cache, seen);

	entry = method_cache_record(s, cache, entry, seen,
				    entry && entry->facts[0] == (uint32_t)identity);
	if (entry)
		entry->facts[0] = (uint32_t)identity;
	return entry;
}

#endif
