/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Language runtimes: which modules are one (the manager then tells who maps them), their memory (by
 * the opener's descriptors), when to attach and to look again, what the kernel side is told, and
 * names for managed frames. What is peculiar to a runtime is in symbolizer/runtime/.
 */
#ifndef SYMBOLIZER_WORKER_RUNTIMES_H
#define SYMBOLIZER_WORKER_RUNTIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/messages.h"
#include "ipc/peer.h"
#include "symbolizer/runtime/runtime.h"

struct worker;
struct module;
struct managed_process;

/* The table of the kernel side; the descriptor stays the caller's. `wanted`: a set, the others are
 * not even looked for. 0 or negative errno. */
int runtimes_init(struct worker *worker, int table_fd, uint32_t wanted);
void runtimes_free(struct worker *worker);

/* Is it a runtime? Then the manager is asked who maps it. */
void runtimes_on_module(struct worker *worker, struct module *module);
void runtimes_on_module_gone(struct worker *worker, uint32_t module);
void runtimes_on_mapped(struct worker *worker, const struct msg_mapped *mapped);
/* May keep the descriptor: it is then -1 in the message. */
void runtimes_on_memory(struct worker *worker, struct message *message);
/* Which program a process runs: what the one before had in memory is gone. */
void runtimes_on_process(struct worker *worker, const struct msg_process *process);
void runtimes_on_process_gone(struct worker *worker, uint32_t tgid);

/* Attach and look again where it is time; asks for the next tick itself. */
void runtimes_tick(struct worker *worker);

/* What is told of them, by enum bh_runtime. */
void runtimes_stats(const struct worker *worker, struct msg_runtime figures[BH_RUNTIME_COUNT]);

/* NULL: it has no runtime. */
struct managed_process *runtimes_process(struct worker *worker, uint32_t tgid);
/* Another for each program that a process executes, never used again. */
uint64_t runtimes_exec_generation(const struct managed_process *process);

/* Names for a managed frame, never none: one that cannot be named says why. `words` are as the
 * walker noted them. */
void runtimes_symbolize(struct worker *worker, struct managed_process *process,
			const uint64_t *words, struct runtime_frames *frames);

#endif
