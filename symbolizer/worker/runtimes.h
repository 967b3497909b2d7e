/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Language runtimes in the worker: everything that is common to all of them. What is specific to
 * one is in symbolizer/runtime/ (struct runtime_ops).
 *
 * How this works:
 * - The files of modules are checked: is one an interpreter or virtual machine that a runtime
 *   recognises (recognition.h)? Then the manager is asked which processes map it.
 * - For each such process the opener is asked for a descriptor of its memory. With --strict-memory
 *   the worker reads memory by pid instead.
 * - The runtime is then attached to the process: it reads the addresses that the kernel side needs.
 *   A process that is just starting is not ready yet (-EAGAIN), so attaching is tried every 5 ms at
 *   first, and once per second later.
 * - What attaching found is published to the kernel side (runtime_slots.h), whose walkers then put
 *   managed frames into stacks. runtimes_symbolize() names them by reading the process's memory.
 * - Processes decide how much there is to read, so reading has a share of the time, of which each
 *   process has a part (common/time_share.h). A process that has used it up is attached later, and
 *   its new frames have no names until there is time again.
 * - An exec makes everything about a process invalid. Each program that a process executes has an
 *   exec generation of its own, and ids of managed frames depend on it.
 * - The kernel side may know a process from its file and walk its managed frames before the opener
 *   has answered. Such a sample waits in the ring for the answer.
 *
 * Example: python3.11 starts as process 42. The module is recognised as CPython; the manager
 * reports that 42 maps it; the opener sends a descriptor; the first attach finds no interpreter
 * state yet, the second one does. Its slot is published. From then on a sample of 42 has frames
 * such as {CPython, code object 0x7f..}, which are named "main (app.py:12)".
 */
#ifndef SYMBOLIZER_WORKER_RUNTIMES_H
#define SYMBOLIZER_WORKER_RUNTIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/messages.h"
#include "ipc/peer.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/names_due.h"

struct worker;
struct module;
struct managed_process;
struct recognised;

/* Starts with the kernel side's table, whose descriptor stays the caller's. If there was another
 * worker, what it has left in the table is removed. Returns 0 or a negative errno. */
int runtimes_init(struct worker *worker, int table_fd, bool had_other_worker);
void runtimes_free(struct worker *worker);

/* The manager has reported all processes that map one of the modules that were watched. */
void runtimes_on_watched(struct worker *worker);

/* Returns the number of processes for which it is still open whether their runtimes can be
 * attached. */
unsigned int runtimes_unsettled(const struct worker *worker);

/* Returns whether the module is known to be a runtime. */
bool runtimes_know_image(const struct worker *worker, uint32_t module);
/* Handles what was found out about the file of a module, and takes its image. If it is a runtime,
 * the manager is asked which processes map it. */
void runtimes_on_recognised(struct worker *worker, uint32_t module, const struct recognised *found);
void runtimes_on_module_gone(struct worker *worker, const struct module *module);
void runtimes_on_mapped(struct worker *worker, const struct msg_mapped *mapped);
void runtimes_on_code_memory(struct worker *worker, const struct msg_code_memory *memory);
/* Handles the opener's answer. May take its descriptor, which is then -1 in the message. Returns
 * whether frames of the process got no names before, because its memory was missing. */
bool runtimes_on_memory(struct worker *worker, struct message *message);
/* Asks an opener that has just started for the memory that its predecessor was asked for. */
void runtimes_ask_again(struct worker *worker);

/* Requests the programs of all runtimes that were found from a loader that was started again: the
 * last one may not have read a request. The loader ignores what is loaded. */
void runtimes_request_again(struct worker *worker);
/* Stops reading the memory of a process by pid if it executes another program now. */
void runtimes_on_process(struct worker *worker, const struct msg_process *process);
void runtimes_on_process_gone(struct worker *worker, uint32_t tgid);

/* Attaches to processes, and refreshes what was attached, where that is due. Requests the next
 * tick. */
void runtimes_tick(struct worker *worker);

/* Fills in the statistics, which are indexed by enum runtime_id. They are untouched before
 * runtimes_init(). */
void runtimes_stats(const struct worker *worker, struct msg_runtime stats[RUNTIME_ID_COUNT]);

/* Returns NULL if the process has no runtime. */
struct managed_process *runtimes_process(struct worker *worker, uint32_t tgid);
/* Returns a number that changes when managed frames of the process may get other names than before:
 * after an exec, and when its memory becomes readable. No two processes have the same. 0 for
 * NULL. */
uint64_t runtimes_names_generation(const struct managed_process *process);
/* Returns whether a sample of the process with managed frames should be handled later, because the
 * opener is about to answer with the memory that has their names. True for 100 ms at most. */
bool runtimes_must_wait(struct worker *worker, uint32_t tgid);

/* Notes that the process was sampled (managed_processes.h). */
void runtimes_on_sample(struct worker *worker, const struct bh_sample *header);

/* Keeps a copy of memory that came through the ring (memory_copies.h). */
void runtimes_on_copy(struct worker *worker, const void *record, size_t length);

/* Names a managed frame, whose `words` are as the walker pushed them. If that is not possible,
 * there is one name that gives the reason, and it may be final or not: there is no time to read the
 * memory of this process now, or the process is left alone. */
enum names_due runtimes_symbolize(struct worker *worker, struct managed_process *process,
				  const uint64_t *words, struct named_frames *frames);

/* Returns a number that changes when addresses in generated code of the process may get other names
 * than before from runtimes that have only names (struct runtime_ops). No two processes have the
 * same. 0: it has no such runtime; also for NULL. */
uint64_t runtimes_code_generation(const struct managed_process *process);

/* Names a frame in generated code by such runtimes. Returns an enum names_due, with names or
 * without (count 0); or -EAGAIN: the sample should wait. */
int runtimes_name_code(struct worker *worker, struct managed_process *process, uint64_t frame,
		       struct named_frames *frames);

#endif
