/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/walker.h"

#include <stdlib.h>
#include <string.h>

struct walker_env {
	const struct walker_tables *tables;
	const struct walker_stack *stack;
};

#define UNWIND_ENV const struct walker_env *
#define RULE_CACHE_BITS 1
#define MAPPING_HINT_BITS 0
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static const uint8_t *env_slab(const struct walker_env *env, uint32_t index)
{
	return index < BH_SLABS_MAX ? env->tables->slabs[index] : NULL;
}

static const struct bh_module *env_module(const struct walker_env *env, uint32_t slot)
{
	return slot < 1u << BH_MODULES_BITS ? &env->tables->modules[slot] : NULL;
}

static const struct bh_rule *env_rule(const struct walker_env *env, uint32_t id)
{
	return id < 1u << BH_RULES_BITS ? &env->tables->rules[id] : NULL;
}

/* There are no runtimes: a copy of a stack does not contain what their walkers would read. */
static const struct bh_runtime_table *env_runtimes(const struct walker_env *env)
{
	(void)env;
	return NULL;
}

static int env_read(const struct walker_env *env, void *to, size_t bytes, uint64_t address)
{
	const struct walker_stack *stack = env->stack;
	uint64_t at = address - stack->start;

	if (address < stack->start || at > stack->length || bytes > stack->length - at)
		return -1;
	memcpy(to, stack->bytes + at, bytes);
	return 0;
}

#include "bpf/unwind/step.h"

unsigned int walker_run(const struct walker_tables *tables, const struct bh_registers *registers,
			const struct walker_stack *stack, uint32_t mapping_slab,
			uint32_t mapping_offset, uint32_t mapping_count, uint64_t *frames,
			unsigned int *count)
{
	const struct walker_env env = {.tables = tables, .stack = stack};
	struct rule_cache cache = {0};
	struct unwind_state state;
	int end = UNWIND_CONTINUE;

	memset(&state, 0, sizeof(state));
	memcpy(state.gpr, registers->gpr, sizeof(state.gpr));
	state.pc = registers->rip;
	state.sp = registers->gpr[BH_REG_RSP];
	state.fp = registers->gpr[BH_REG_RBP];
	state.mapping_slab = mapping_slab;
	state.mapping_offset = mapping_offset;
	state.mapping_count = mapping_count;
	unwind_start(&state);
	while (end == UNWIND_CONTINUE)
		end = unwind_steps(&state, &env, &cache);
	/* What cannot be read is beyond the end of the copy. */
	if (end == BH_REASON_READ_FAULT)
		end = BH_REASON_COPY_SHORT;
	*count = state.frame_count;
	memcpy(frames, state.frames, state.frame_count * sizeof(frames[0]));
	return (unsigned int)end;
}
