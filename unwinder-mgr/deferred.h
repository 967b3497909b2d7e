/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred stacks: samples whose unwind tables did not exist yet when they were taken.
 *
 * How this works. When the BPF program meets a process or a module without a table, it sends the
 * registers and a copy of the user stack instead of frames. The manager tries to walk such a copy
 * at once, with the source of the walker compiled for user space. If tables are still missing, the
 * stack waits in a list, and is tried again whenever a module or a process has become usable
 * (modules.generation). After LIMIT_DEFERRED_MS it is sent on as far as it can be walked. The
 * worker receives the same record as if BPF had walked the stack.
 *
 * A process may execute another program while its stack waits. So the walk uses the mappings that
 * the process had at the time of the sample (processes_list_at).
 *
 * Example: a compiler starts and is sampled 1 ms later. Its stack is deferred with the reason
 * NO_PROCESS. The sideband reports its exec and its mappings, the opener opens cc1, and 20 ms later
 * cc1's table is ready: the generation grows, and the stack is walked and sent.
 */
#ifndef UNWINDER_MGR_DEFERRED_H
#define UNWINDER_MGR_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/bpf_ring.h"

struct manager;

struct deferred_stack {
	struct deferred_stack *next;
	uint64_t since_ns;
	struct share *share; /* of the user; holds a reference */
	size_t bytes;
	struct bh_deferred record; /* allocated only as far as the stack was copied */
};

struct deferred {
	struct bpf_ring ring;
	struct deferred_stack *first, *last;
	size_t count, bytes;
	uint64_t tried_generation; /* modules.generation at the last try */
};

/* Tells the worker how many stacks it should have got so far, by the worker's own count of those
 * that arrived. Once for each connection to a worker, before the first stack is sent. */
void deferred_tell_count(struct manager *manager);

/* Takes the stacks out of the ring, and sends or keeps each of them. */
void deferred_consume(struct manager *manager);

/* Sends the stacks that can be walked by now. Those that have waited too long, or all of them with
 * `finish`, are sent as far as they can be walked. */
void deferred_process(struct manager *manager, bool finish);

#endif
