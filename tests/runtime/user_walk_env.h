/* SPDX-License-Identifier: Apache-2.0 */
/* What bpf/unwind/step.h and the runtimes' walkers ask for, in user space. */
#ifndef TESTS_RUNTIME_USER_WALK_ENV_H
#define TESTS_RUNTIME_USER_WALK_ENV_H

#include <string.h>

#include "tests/runtime/user_walk.h"

#define WALK_ENV const struct user_walk *
#define WALK_CACHE_BITS USER_WALK_CACHE_BITS
#define WALK_HINT_BITS 4
#define WALK_KNOWN_BITS 4
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static inline const uint8_t *walk_slab(const struct user_walk *walk, uint32_t index)
{
	return index < BH_SLABS_MAX ? walk->tables->slabs[index] : NULL;
}

static inline const struct bh_module *walk_module(const struct user_walk *walk, uint32_t slot)
{
	return slot < 1u << BH_MODULES_BITS ? &walk->tables->modules[slot] : NULL;
}

static inline const struct bh_rule *walk_rule(const struct user_walk *walk, uint32_t number)
{
	return number < 1u << BH_RULES_BITS ? &walk->tables->rules[number] : NULL;
}

static inline const struct bh_runtime_table *walk_runtimes(const struct user_walk *walk)
{
	return walk->runtimes;
}

static inline uint64_t walk_thread_pointer(const struct user_walk *walk)
{
	return walk->thread_pointer;
}

static inline int walk_read(const struct user_walk *walk, void *to, size_t bytes, uint64_t address)
{
	return walk->read(walk->context, address, to, bytes);
}

#include "bpf/unwind/step.h"
#include "bpf/runtime/known.h"

/* Empty each time: each frame is looked at. */
static inline struct walk_known_cache *walk_known(const struct user_walk *walk)
{
	static struct walk_known_cache cache;

	(void)walk;
	memset(&cache, 0, sizeof(cache));
	return &cache;
}

/* Of tests/runtime/walker.c.in, one for each runtime. */
#define RUNTIME(id, name, frame_type, title)                                      \
	int user_walk_##name(struct walk_state *s, const struct user_walk *walk,                   \
			     const struct bh_runtime_block *block);
#include "common/runtimes.def"
#undef RUNTIME

#endif
