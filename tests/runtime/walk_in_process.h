/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwinder and the walkers in user space: bpf/unwind/step.h and each bpf/runtime/NAME.bpf.c,
 * over memory that a function reads. The steps are those of bpf/sample.bpf.c.
 */
#ifndef TESTS_RUNTIME_WALK_IN_PROCESS_H
#define TESTS_RUNTIME_WALK_IN_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "unwinder-mgr/walker.h"

/* The rule cache keeps all rules of a walk: it has more entries than the stack of a case has
 * frames. */
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
	/* Returns 0, or another value if not all of the memory can be read. */
	int (*read)(void *context, uint64_t address, void *to, size_t bytes);
	void *context;
};

struct walk_in_process_result {
	unsigned int reason; /* enum bh_reason */
	unsigned int steps;
	unsigned int count;
	uint64_t frames[BH_USER_FRAMES_MAX];
	/* The rules that were used, each once, by module id and offset as in a native frame. Rules
	 * of modules without a table are not here, because all their places have the same one. */
	unsigned int rule_count;
	struct walk_in_process_rule {
		uint64_t frame;
		struct bh_rule rule;
	} rules[WALK_IN_PROCESS_RULES_MAX];
};

void walk_in_process_run(const struct walk_in_process *walk, const struct bh_registers *registers,
			 struct walk_in_process_result *result);

#endif
