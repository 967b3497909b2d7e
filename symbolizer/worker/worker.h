/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's state: samples come in (ring, or deferred through the manager), names are found,
 * batches go out. Frames, functions, stacks, processes and threads are numbered when they are first
 * seen; the exporter is told each once.
 */
#ifndef SYMBOLIZER_WORKER_WORKER_H
#define SYMBOLIZER_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/bpf_ring.h"
#include "records/records.h"
#include "role/role.h"
#include "symbolizer/worker/kernel_symbols.h"
#include "symbolizer/worker/symbols.h"
#include "symbolizer/worker/id_map.h"
#include "symbolizer/worker/resend_buffer.h"

enum {
	WORKER_MODULE_BUCKETS = 1024,
	WORKER_PROCESS_BUCKETS = 1024
};

/* A file that processes map, as the manager announced it. */
struct worker_module {
	struct worker_module *next;
	uint32_t number;
	int fd;			 /* -1: could not be had */
	struct symbols *symbols; /* NULL: not read yet, or given back for room */
	struct symbols_ids ids;
	bool no_symbols;
	bool told; /* to the exporter */
	uint64_t used;
	char path[MSG_PATH_BYTES];
};

/* What the manager said of a process. */
struct worker_process {
	struct worker_process *next;
	struct msg_process said;
	uint32_t version; /* of it, so that an exec makes a new process of the same tgid */
};

/* A stack that the kernel side sent after it was told to send all anew, and before the worker
 * forgets: it will be referred to. */
struct carried_stack;

/* Stacks that the kernel side may refer to: by their numbers there, ours. Those of the last period,
 * and of the one before: longer than the kernel side remembers, in the time of the records. */
struct known_stacks {
	struct id_map now, before;
	uint64_t since_ns;
};

struct numbers {
	struct id_map modules, functions, frames, stacks, processes, threads;
	uint32_t next_module, next_function, next_frame, next_stack, next_process, next_thread;
};

struct identity;
struct runtimes;

struct worker {
	struct role role;
	struct bpf_ring ring;
	struct kernel_symbols *kernel;
	struct worker_module *modules[WORKER_MODULE_BUCKETS];
	struct worker_process *processes[WORKER_PROCESS_BUCKETS];
	size_t symbol_bytes;
	uint64_t clock; /* of uses */
	struct numbers numbers;
	struct known_stacks known;
	struct bh_worker_control *control; /* read by the kernel side */
	uint64_t forget_at_ns; /* 0: no need. All numbers are forgotten when records made before
				  this were consumed: the kernel side was told to refer to no older
				  stack */
	uint64_t revoked_ns;   /* when it was told */
	struct carried_stack *carried;
	size_t carried_count;
	uint64_t beginnings; /* how often all numbers were forgotten */
	bool reset_wanted;   /* the next batch tells the exporter to forget all numbers */
	struct records *batch;
	struct resend_buffer window;
	uint64_t batch_bytes; /* sent to the exporter, in all */
	struct msg_losses losses;
	uint64_t waiting_since_ns; /* the record at the ring's head names a module that was not
				      announced yet */
	bool manager_drained, stopping, ended;
	struct runtimes *runtimes; /* NULL: without the kernel's table */
	struct identity *identity; /* NULL: nobody wants to know it */
	bool batch_held;	   /* for what is on its way of the identity of processes in it */
	bool ring_emptied;	   /* by the last turn */
};

/* modules.c */
struct worker_module *modules_find(struct worker *worker, uint32_t number);
int modules_add(struct worker *worker, const struct msg_module *message, int fd);
void modules_remove(struct worker *worker, uint32_t number);
/* Symbols and ids of a module, read if they are not in memory, at the expense of the least recently
 * used. NULL: it has none. */
const struct symbols *modules_symbols(struct worker *worker, struct worker_module *module);
/* symbols_find_start() for a module whose symbols are in memory. An index of functions that it
 * builds counts as symbols. */
bool modules_function_start(struct worker *worker, struct worker_module *module, uint64_t offset,
			    uint64_t *start_vaddr);

/* frames.c: the number of a frame, defined for the exporter if it is new. 0 or negative errno. */
int frames_number(struct worker *worker, uint64_t frame, uint32_t *number);
/* The same for a managed frame of `process`, which may stand for several, leaf first, or for none:
 * their numbers are `*number` and those that follow, `*count` in all. */
struct managed_process;
int frames_number_managed(struct worker *worker, struct managed_process *process,
			  const uint64_t *words, uint32_t *number, uint32_t *count);
int frames_abort_marker(struct worker *worker, unsigned int reason, uint32_t *number);

/* samples.c */
void samples_add(struct worker *worker, const struct bh_sample *header, const uint64_t *frames);
bool samples_valid(const void *record, size_t length);
/* The record has no frames but refers to a stack that came before. */
bool samples_refers(const struct bh_sample *header);
/* Forget all numbers when there are too many: see forget_at_ns. All records made before `time_ns`
 * were consumed. */
void samples_forget_when_due(struct worker *worker, uint64_t time_ns);
/* Soon: the kernel side is told to send every stack again. */
void samples_forget_soon(struct worker *worker);
/* At once, with what is in the batch: the exporter does not know what the numbers mean. */
void samples_begin_anew(struct worker *worker);
/* All modules that the sample names are known. */
bool samples_resolvable(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames);
void samples_on_process(struct worker *worker, const struct msg_process *message);
void samples_on_process_gone(struct worker *worker, uint32_t tgid);
/* The batch has no room for another sample. */
bool samples_full(const struct worker *worker);
/* Send what was collected if another sample, or the names of one more frame (those of one deep
 * stack may be more than a batch holds), might not find room. */
void samples_make_room(struct worker *worker);
/* Send what was collected. */
void samples_flush(struct worker *worker);

#endif
