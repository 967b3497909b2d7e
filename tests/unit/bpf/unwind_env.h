/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwinder for unit tests: a process without unwind tables. Each module has the rule of frame
 * pointers. A test defines the sizes of the caches (RULE_CACHE_BITS, MAPPING_HINT_BITS) before it
 * includes this header. An environment of NULL has no runtimes and no memory.
 */
#ifndef TESTS_UNIT_BPF_UNWIND_ENV_H
#define TESTS_UNIT_BPF_UNWIND_ENV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpf/shared.h"

enum {
	TEST_MODULE = 1, /* slot and id of the only module with a file */
};

struct test_env {
	const struct bh_runtime_table *runtimes;
	const void *memory;
	uint64_t start, bytes;	/* address and length of the memory */
	unsigned int *failures; /* counts the reads that failed; NULL: nobody does */
};

#define UNWIND_ENV const struct test_env *
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static const uint8_t *env_slab(UNWIND_ENV env, uint32_t index)
{
	(void)env;
	(void)index;
	return NULL;
}

static const struct bh_module *env_module(UNWIND_ENV env, uint32_t slot)
{
	static const struct bh_module without_file = {.state = BH_MODULE_FRAME_POINTERS};
	static const struct bh_module of_file = {.state = BH_MODULE_FRAME_POINTERS,
						 .id = TEST_MODULE};

	(void)env;
	return slot ? &of_file : &without_file;
}

static const struct bh_rule *env_rule(UNWIND_ENV env, uint32_t id)
{
	static const struct bh_rule rule;

	(void)env;
	(void)id;
	return &rule;
}

static const struct bh_runtime_table *env_runtimes(UNWIND_ENV env)
{
	return env ? env->runtimes : NULL;
}

static int env_read(UNWIND_ENV env, void *to, size_t bytes, uint64_t address)
{
	if (!env || address < env->start || address - env->start > env->bytes ||
	    bytes > env->bytes - (address - env->start)) {
		if (env && env->failures)
			++*env->failures;
		return -1;
	}
	memcpy(to, (const uint8_t *)env->memory + (address - env->start), bytes);
	return 0;
}

#pragma GCC diagnostic ignored "-Wunused-function"
#include "bpf/unwind/step.h"

#endif
