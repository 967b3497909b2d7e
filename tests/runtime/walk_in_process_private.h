/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the unwinder and the walkers in user space. */
#ifndef TESTS_RUNTIME_WALK_IN_PROCESS_PRIVATE_H
#define TESTS_RUNTIME_WALK_IN_PROCESS_PRIVATE_H

#include <string.h>

#include "tests/runtime/walk_in_process.h"

#define UNWIND_ENV const struct walk_in_process *
#define RULE_CACHE_BITS WALK_IN_PROCESS_CACHE_BITS
#define MAPPING_HINT_BITS 4
#define METHOD_CACHE_BITS 4
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static inline const uint8_t *env_slab(const struct walk_in_process *walk, uint32_t index)
{
	return index < BH_SLABS_MAX ? walk->tables->slabs[index] : NULL;
}

static inline const struct bh_module *env_module(const struct walk_in_process *walk, uint32_t slot)
{
	return slot < 1u << BH_MODULES_BITS ? &walk->tables->modules[slot] : NULL;
}

static inline const struct bh_rule *env_rule(const struct walk_in_process *walk, uint32_t id)
{
	return id < 1u << BH_RULES_BITS ? &walk->tables->rules[id] : NULL;
}

static inline const struct bh_runtime_table *env_runtimes(const struct walk_in_process *walk)
{
	return walk->runtimes;
}

static inline uint64_t env_thread_pointer(const struct walk_in_process *walk)
{
	return walk->thread_pointer;
}

static inline int env_read(const struct walk_in_process *walk, void *to, size_t bytes,
			   uint64_t address)
{
	return walk->read(walk->context, address, to, bytes);
}

#include "bpf/unwind/step.h"
#include "bpf/runtime/method_cache.h"

/* Returns an empty cache each time, so that each method is read. */
static inline struct method_cache *env_method_cache(const struct walk_in_process *walk)
{
	static struct method_cache cache;

	(void)walk;
	memset(&cache, 0, sizeof(cache));
	return &cache;
}

/* These are defined by the files made of tests/runtime/walker.c.in. */
#define RUNTIME(id, name, frame_type, title)                                                       \
	int walk_in_process_##name(struct unwind_state *s, const struct walk_in_process *walk,     \
				   const struct bh_runtime_block *block);
#include "common/runtimes.def"
#undef RUNTIME

#endif
