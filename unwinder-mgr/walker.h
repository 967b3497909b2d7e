/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder (bpf/unwind/step.h) compiled for user space, over a copy of a stack. */
#ifndef UNWINDER_MGR_WALKER_H
#define UNWINDER_MGR_WALKER_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"

struct walker_tables {
	const uint8_t *slabs[BH_SLABS_MAX];
	const struct bh_module *modules; /* 1 << BH_MODULES_BITS of them */
	const struct bh_rule *rules;	 /* 1 << BH_RULES_BITS of them */
};

struct walker_stack {
	uint64_t start;
	const uint8_t *bytes;
	size_t length;
};

/* Unwinds a user stack with the given tables and mappings (the list at that place in a slab).
 * Writes its frames to `frames`, which has room for BH_USER_FRAMES_MAX, and their number of words
 * to `count`. Returns the enum bh_reason that ended the stack. */
unsigned int walker_run(const struct walker_tables *tables, const struct bh_registers *registers,
			const struct walker_stack *stack, uint32_t mapping_slab,
			uint32_t mapping_offset, uint32_t mapping_count, uint64_t *frames,
			unsigned int *count);

#endif
