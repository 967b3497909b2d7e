/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table from which the kernel side learns about processes with a language runtime (struct
 * bh_runtime_table in bpf/shared.h). It is shared memory: the worker is the only writer, BPF
 * programs read it at any time.
 *
 * How this works:
 * - A process has one slot, found by hashing its tgid (at most BH_RUNTIME_PROBES steps), with its
 *   ranges of code. A range names a runtime and a block with that runtime's data.
 * - A slot has a sequence number, which is odd while it is being written. A walker that sees an odd
 *   number, or another number after reading, uses nothing of what it read.
 * - The slot of a process that has ended becomes a tombstone if a search may have to continue after
 *   it; otherwise it is free again.
 * - A slot also has two intervals that contain all ranges of the process that are in files. An
 *   address outside of both, in a file, needs no search.
 *
 * Example: process 42 hashes to slot 7, which is taken by process 99; 42 gets slot 8. When 99 ends,
 * slot 7 becomes a tombstone, because a search for 42 passes it. When 42 ends too and slot 9 is
 * free, 8 and 7 become free.
 */
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
	struct bh_runtime_table *table; /* NULL: not received yet */
	bool block_used[RUNTIME_BLOCKS];
	bool range_used[RUNTIME_RANGES];
};

struct runtime_slot_range {
	struct bh_runtime_range range;
	bool in_file;
};

/* Removes what an earlier worker has published, which may have ended in the middle of that. */
void runtime_slots_empty(struct runtime_slots *slots);

/* Takes a free block, which is zeroed. Returns RUNTIME_NO_BLOCK if there is none. */
int runtime_slots_take_block(struct runtime_slots *slots);
void runtime_slots_give_block(struct runtime_slots *slots, int block);

/*
 * Publishes the ranges of a process, replacing what was published before. `ranges` are sorted here;
 * one that overlaps the range before it is left out. `fill` writes the blocks while no walker uses
 * the slot. Returns 0; or -ENOSPC if there is no room, and the process has no slot now.
 */
int runtime_slots_publish(struct runtime_slots *slots, uint32_t tgid,
			  struct runtime_slot_range *ranges, size_t count,
			  void (*fill)(void *context, struct bh_runtime_table *table),
			  void *context);

void runtime_slots_remove(struct runtime_slots *slots, uint32_t tgid);

#endif
