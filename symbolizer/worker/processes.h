/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that the manager announced, by tgid. A sample only has the ids of its process;
 * names and paths come from here. */
#ifndef SYMBOLIZER_WORKER_PROCESSES_H
#define SYMBOLIZER_WORKER_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/messages.h"

enum {
	PROCESSES_BUCKETS = 1024 /* some hundred processes run on a host at a time */
};

struct announced_process {
	struct announced_process *next;
	struct msg_process message; /* the last one; its texts end with a NUL */
	uint32_t version; /* counts changes: an exec makes another process of the same tgid */
};

struct processes {
	struct announced_process *buckets[PROCESSES_BUCKETS];
};

/* Returns NULL if the manager did not announce the process, or it is gone. Valid until it is
 * removed. */
static inline const struct announced_process *processes_find(const struct processes *processes,
							     uint32_t tgid)
{
	const struct announced_process *process = processes->buckets[tgid % PROCESSES_BUCKETS];

	while (process && process->message.tgid != tgid)
		process = process->next;
	return process;
}

/* Returns the container of a process (common/tenant.h), or 0: it has none, or was not announced. */
static inline uint64_t processes_container(const struct processes *processes, uint32_t tgid)
{
	const struct announced_process *process = processes_find(processes, tgid);

	return process ? process->message.container : 0;
}

/* Adds a process, or replaces what was announced before. Without memory, a new process is not
 * recorded. */
void processes_announce(struct processes *processes, const struct msg_process *message);
void processes_remove(struct processes *processes, uint32_t tgid);
void processes_fini(struct processes *processes);

#endif
