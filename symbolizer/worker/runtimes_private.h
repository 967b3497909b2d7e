/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of runtimes.h share: runtimes.c (files, processes, attaching) and runtime_names.c
 * (names of frames). */
#ifndef SYMBOLIZER_WORKER_RUNTIMES_PRIVATE_H
#define SYMBOLIZER_WORKER_RUNTIMES_PRIVATE_H

#include "common/time_share.h"
#include "common/work_time.h"
#include "role/work_page.h"
#include "symbolizer/worker/managed_processes.h"
#include "symbolizer/worker/memory_copies.h"

struct worker;

struct runtimes {
	struct managed_processes processes;
	uint32_t requested; /* set of enum bh_runtime: whose programs the loader was asked for */
	unsigned int watches_asked, watches_answered;
	struct memory_copies copies;
	uint64_t clock;		/* counts uses of attachments */
	struct time_share time; /* for reading the memory of all processes */
	uint32_t tick_from; /* pid of the process with which the next tick goes on; 0: the first */
};

/* Returns whether the runtime has only names (struct runtime_ops), and is attached. */
static inline bool runtimes_give_names(const struct runtime_attachment *attachment)
{
	return attachment->image->ops->only_names &&
	       attachment->state == RUNTIME_ATTACHMENT_PUBLISHED;
}

/* runtimes.c */

/* Returns who reads, for the work page. */
struct work_subject runtimes_subject(const struct managed_process *process);

/* Returns whether the memory of a process may be read now, for at least `needed_ns`. This function
 * and runtimes_spend() say what has a part of the time: each process, and each tenant. */
bool runtimes_may_begin(struct worker *worker, struct managed_process *process, uint64_t needed_ns,
			uint64_t now);

/* Accounts for what was read since `begin`. */
void runtimes_spend(struct worker *worker, struct managed_process *process,
		    const struct work_time *begin);

#endif
