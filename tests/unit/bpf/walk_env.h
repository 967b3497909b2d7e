/* SPDX-License-Identifier: Apache-2.0 */
/* What bpf/walk.h asks for, where a test needs no tables, and it. Who includes this defines the sizes of its caches before. */
#ifndef TESTS_UNIT_BPF_WALK_ENV_H
#define TESTS_UNIT_BPF_WALK_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"

#define WALK_ENV const void *
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static const uint8_t *walk_slab(const void *env, uint32_t index)
{
	(void)env;
	(void)index;
	return NULL;
}

/* Memory without a file: the rule is frame pointers, whatever the address. */
static const struct bh_module *walk_module(const void *env, uint32_t slot)
{
	static const struct bh_module module = {.state = BH_MODULE_FRAME_POINTERS};

	(void)env;
	(void)slot;
	return &module;
}

static const struct bh_rule *walk_rule(const void *env, uint32_t number)
{
	static const struct bh_rule rule;

	(void)env;
	(void)number;
	return &rule;
}

static const struct bh_runtime_table *walk_runtimes(const void *env)
{
	(void)env;
	return NULL;
}

static int walk_read(const void *env, void *to, size_t bytes, uint64_t address)
{
	(void)env;
	(void)to;
	(void)bytes;
	(void)address;
	return -1;
}

#pragma GCC diagnostic ignored "-Wunused-function"
#include "bpf/walk.h"

#endif
