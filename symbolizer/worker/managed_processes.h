/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes with a language runtime, and which of them are in the kernel side's table.
 *
 * How this works:
 * - A process is added with the first mapping of a runtime's file. It has one attachment for each
 *   runtime (runtime_attachment.h). Its ranges of code are published in the kernel side's table
 *   (runtime_slots.h), which is smaller than all that processes may have.
 * - If the table has no room, the process that was sampled least recently is taken out of it, but
 *   none that was sampled within the last second: otherwise more busy processes than there is room
 *   for would replace each other with every sample. Its frames are native from then on, which is
 *   counted and logged once. Its attachments stay, so its next sample puts it into the table again.
 *
 * - How many processes there may be is limited. If there are as many, one of the tenant with most
 *   of them gives way to one of any other tenant: that which was sampled least recently.
 *
 * Example: 4,096 Python daemons fill the blocks of the table. Another one starts. Daemon 17 was
 * last sampled a minute ago and leaves the table. When it runs again, its first sample has native
 * frames only, and takes the place of another process that is idle.
 */
#ifndef SYMBOLIZER_WORKER_MANAGED_PROCESSES_H
#define SYMBOLIZER_WORKER_MANAGED_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/time_share.h"
#include "ipc/messages.h"
#include "ipc/peer.h"
#include "role/process_work.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/managed_tenants.h"
#include "symbolizer/worker/runtime_attachment.h"
#include "symbolizer/worker/runtime_images.h"
#include "symbolizer/worker/runtime_slots.h"
#include "symbolizer/worker/runtime_stats.h"

enum {
	MANAGED_PROCESS_BUCKETS = 1024,
	MANAGED_PROCESS_RUNTIMES_MAX = 4,
};

struct managed_process {
	struct managed_process *next;
	uint32_t tgid;
	uint32_t exec_generation; /* of the program to which everything else belongs */
	struct managed_tenant *tenant;
	uint64_t since_ns;
	uint64_t sampled_ns;	     /* time of the last sample; at first since_ns */
	uint64_t tried_ns;	     /* when it was put into the table, or should have been */
	bool in_table, out_of_table; /* it has a place in the table; it should have one */
	bool memory_asked;
	uint64_t memory_due_ns;	  /* when to ask again, after ENOBUFS; 0: never */
	unsigned int memory_lost; /* how often */
	bool readable;	   /* `memory` can be read, and no exec of the process was reported since */
	bool was_readable; /* at any time since exec_generation began */
	bool named_too_early; /* a frame got no name before that */
	struct memory memory;
	struct runtime_code_memory *code_memory; /* NULL until it is reported */
	struct time_part time;			 /* for attaching and naming; it outlives an exec */
	unsigned int count;
	struct runtime_attachment *attachments[MANAGED_PROCESS_RUNTIMES_MAX];
};

struct managed_processes {
	struct process_work *work; /* does what reads memory; borrowed */
	struct runtime_slots slots;
	struct runtime_image *images;
	struct runtime_stats stats;
	struct managed_process *buckets[MANAGED_PROCESS_BUCKETS];
	unsigned int count;
	struct managed_tenants tenants;
	unsigned int out_of_table; /* how many of them */
	size_t cached_bytes;	   /* in the caches of all attachments */
	/* Scratch space for the ranges of the process that is being published. */
	struct runtime_slot_range ranges[RUNTIME_PROCESS_RANGES_MAX];
};

/* Returns the process, or NULL. */
struct managed_process *managed_processes_find(const struct managed_processes *processes,
					       uint32_t tgid);

/* Returns the process after `process`, in no particular order; the first one for NULL; NULL after
 * the last one. */
struct managed_process *managed_processes_next(const struct managed_processes *processes,
					       const struct managed_process *process);

/* Returns the process that runs the program of `mapped`, and adds it if it is new. Everything about
 * a previous program is dropped. If there are LIMIT_RUNTIME_PROCESSES already, another process is
 * deleted: one of the tenant that has most of them. Returns NULL if that is the new process's own
 * tenant, or if there is no memory. */
struct managed_process *managed_processes_ensure(struct managed_processes *processes,
						 const struct msg_mapped *mapped);

/* Takes the descriptor of the process's memory from a MEMORY message, which has it. */
void managed_process_take_memory(struct managed_process *process, struct message *message);

/* Closes that descriptor, if there is one. */
void managed_process_close_memory(struct managed_process *process);

/* Detaches from everything in the process, and frees it. Does nothing if it is not there. */
void managed_processes_delete(struct managed_processes *processes, uint32_t tgid);
void managed_processes_fini(struct managed_processes *processes);

/* Adds an attachment to the runtime of `image`, or returns the one that is there. Returns NULL if
 * there is no room or memory. */
struct runtime_attachment *managed_process_attachment(struct managed_process *process,
						      struct runtime_image *image, uint64_t bias);

/* Takes over where the process has executable memory outside of files, if the message is of the
 * program that it executes. Returns whether an attachment has to be tried again because of that. */
bool managed_process_set_code_memory(struct managed_process *process,
				     const struct msg_code_memory *message);

/* Counts what an attachment has cached by now. Drops the caches that were not used for the longest
 * time until all fit into the limit that the processes share. */
void managed_processes_count_cache(struct managed_processes *processes,
				   struct runtime_attachment *attachment);

/* Writes the ranges of all its attachments into the table, in the place of what was there. */
void managed_processes_publish(struct managed_processes *processes,
			       struct managed_process *process);

/* Notes a sample of the process at a time (CLOCK_MONOTONIC). A process that had to leave the table
 * is put into it again; if it finds no room, it is tried once per second. */
void managed_processes_sampled(struct managed_processes *processes, uint32_t tgid,
			       uint64_t time_ns);

#endif
