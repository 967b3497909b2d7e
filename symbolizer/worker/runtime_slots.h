/* SPDX-License-Identifier: Apache-2.0 */
/* The table that tells the kernel side of processes with a language runtime (struct
 * bh_runtime_table), written in place; this role is its only writer. */
#ifndef SYMBOLIZER_WORKER_RUNTIME_SLOTS_H
#define SYMBOLIZER_WORKER_RUNTIME_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"

enum {
	RUNTIME_SLOTS = 1 << BH_RUNTIME_SLOTS_BITS,
	RUNTIME_BLOCKS = 1 << BH_RUNTIME_BLOCKS_BITS,
	RUNTIME_RANGES = 1 << BH_RUNTIME_RANGES_BITS,
	RUNTIME_PROCESS_RANGES_MAX = (1 << BH_RUNTIME_PROCESS_RANGES_BITS) - 1,
	RUNTIME_NO_BLOCK = -1
};

struct runtime_slots {
	struct bh_runtime_table *table; /* NULL: not there yet */
	bool block_used[RUNTIME_BLOCKS];
	bool range_used[RUNTIME_RANGES];
};

struct runtime_slot_range {
	struct bh_runtime_range range;
	bool in_file;
};

/* A free block, zeroed; RUNTIME_NO_BLOCK if there is none. */
int runtime_slots_take_block(struct runtime_slots *slots);
void runtime_slots_give_block(struct runtime_slots *slots, int block);

/*
 * What is known of a process, in place of what was. `ranges` are sorted here; one that overlaps the
 * one before is left out. `fill` writes the blocks, while no walker trusts the slot. 0; -ENOSPC: no
 * room, and the process has no slot now.
 */
int runtime_slots_publish(struct runtime_slots *slots, uint32_t tgid,
			  struct runtime_slot_range *ranges, size_t count,
			  void (*fill)(void *context, struct bh_runtime_table *table),
			  void *context);

void runtime_slots_remove(struct runtime_slots *slots, uint32_t tgid);

#endif
