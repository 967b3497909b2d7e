/* SPDX-License-Identifier: Apache-2.0 */
/* The walker compiled for user space: over a copied stack, or over recorded memory in tests. */
#ifndef UNWINDER_MGR_WALKER_H
#define UNWINDER_MGR_WALKER_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"

struct walker_tables {
	const uint8_t *slabs[BH_SLABS_MAX];
	const struct bh_module *modules; /* 1 << BH_MODULES_BITS */
	const struct bh_rule *rules;	 /* 1 << BH_RULES_BITS */
};

struct walker_stack {
	uint64_t start;
	const uint8_t *bytes;
	size_t length;
};

/* Walk a user stack: its frames into `frames` (BH_USER_FRAMES_MAX of them at most), their number
 * into `count`. How it ended: enum bh_reason. */
unsigned int walker_run(const struct walker_tables *tables, const struct bh_registers *registers,
			const struct walker_stack *stack, uint32_t mapping_slab,
			uint32_t mapping_offset, uint32_t mapping_count, uint64_t *frames,
			unsigned int *count);

#endif
