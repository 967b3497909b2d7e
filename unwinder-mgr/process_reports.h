/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker hears of processes: which program each executes, where it maps a language
 * runtime, and its memory for generated code. What the opener may hand out follows from that
 * (memory_permits.h). */
#ifndef UNWINDER_MGR_PROCESS_REPORTS_H
#define UNWINDER_MGR_PROCESS_REPORTS_H

#include "unwinder-mgr/runtime_check.h"

struct manager;
struct module;
struct process;
struct processes;

/* Lets processes_publish() look at a process: its mappings have changed, or what the worker or the
 * opener know of it. */
void process_mark_dirty(struct processes *processes, struct process *process);

/* Reports a process whose mappings have changed to the worker. Returns 0, or -EAGAIN if that has to
 * wait for the opener. */
int process_report(struct manager *manager, struct process *process);

/* Reports to the worker who maps `module`, now and whenever it changes, and allows for these
 * processes what `access` says; RUNTIME_ACCESS_NONE is not allowed here. */
void processes_watch(struct manager *manager, struct module *module, enum runtime_access access);

/* Has all processes reported again, to a worker that has just started. */
void processes_tell_worker(struct processes *processes);

/* Has all permissions given again, to an opener that has just started. */
void processes_ask_again(struct processes *processes);

#endif
