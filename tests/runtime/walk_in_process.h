/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walkers in user space: bpf/unwind/step.h and every bpf/runtime/NAME.bpf.c over any memory that a
 * function can read, by the steps that bpf/sample.bpf.c makes in the kernel.
 */
#ifndef TESTS_RUNTIME_WALK_IN_PROCESS_H
#define TESTS_RUNTIME_WALK_IN_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "unwinder-mgr/walker.h"

/* How many rules are remembered: more than a stack of a case has. */
#define WALK_IN_PROCESS_CACHE_BITS 12

enum {
	WALK_IN_PROCESS_RULES_MAX = 1 << WALK_IN_PROCESS_CACHE_BITS,
	WALK_IN_PROCESS_STEPS_MAX = BH_UNWIND_BATCHES * BH_UNWIND_BATCH_STEPS,
};

struct walk_in_process {
	const struct walker_tables *tables;
	const struct bh_runtime_table *runtimes; /* may be NULL */
	uint32_t tgid;
	uint32_t mapping_slab, mapping_offset, mapping_count;
	uint64_t thread_pointer;
	/* 0, or not 0 if not all of it can be read. */
	int (*read)(void *context, uint64_t address, void *to, size_t bytes);
	void *context;
};

struct walk_in_process_result {
	unsigned int reason; /* enum bh_reason */
	unsigned int steps;
	unsigned int count;
	uint64_t frames[BH_USER_FRAMES_MAX];
	/* The rules that were used, each once: module number and offset as in a native frame. Not
	 * those of modules without a table, for which there is one rule. */
	unsigned int rule_count;
	struct walk_in_process_rule {
		uint64_t frame;
		struct bh_rule rule;
	} rules[WALK_IN_PROCESS_RULES_MAX];
};

void walk_in_process_run(const struct walk_in_process *walk, const struct bh_registers *registers,
		   struct walk_in_process_result *result);

#endif
