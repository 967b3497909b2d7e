/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory the opener may hand out, and the requests that came too early.
 *
 * How this works. Two roles must agree before a process's memory is handed out: the manager allows
 * it (ALLOW_MEMORY), and the worker asks for it (OPEN_MEMORY). There is one permission per pid; it
 * is replaced by the next one, and removed by FORBID_MEMORY. The two roles have connections of
 * their own, so a request may be read before the permission, although the manager sent that first.
 * Such a request waits here, and nobody is delayed. One that waits in vain, because the process has
 * ended or the worker forged it, stays until newer ones need its place.
 *
 * Example: the manager allows 42 in generation 7, and reports it to the worker.
 *
 *	OPEN_MEMORY {42, 7}	no permission yet: the request waits
 *	ALLOW_MEMORY {42, 7}	kept, and the request is answered
 *	FORBID_MEMORY {42, 7}	42 executes another program: removed
 *	OPEN_MEMORY {42, 7}	waits, and is never answered with memory
 */
#ifndef SYMBOLIZER_OPENER_MEMORY_PERMITS_H
#define SYMBOLIZER_OPENER_MEMORY_PERMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/messages.h"

enum {
	/* Processes whose memory is allowed, 72 bytes each: four times as many as the worker reads
	 * at the same time. Full: the permission that was given first is removed. */
	LIMIT_MEMORY_PERMITS = 4096,
	/* Requests that wait for their permission: as many as an honest worker has processes.
	 * Full: the oldest is refused. */
	LIMIT_MEMORY_REQUESTS = 1024,
	/* How often memory is opened by one permission. The worker needs it once, and again if its
	 * queue was full or the process was just executing a program. More: refused, since each
	 * time costs up to 1 ms for a process with many mappings. */
	LIMIT_MEMORY_OPENS = 64,
	MEMORY_PERMIT_BUCKETS = 1024,
};

struct memory_permit {
	struct memory_permit *next; /* of the same bucket */
	uint64_t sequence;	    /* order in which permissions were given */
	unsigned int opens;	    /* how often the caller has opened the memory */
	struct msg_allow_memory allowed;
};

struct memory_permits {
	struct memory_permit *buckets[MEMORY_PERMIT_BUCKETS];
	unsigned int count;
	uint64_t sequence;
	uint64_t evicted; /* permissions that were removed because there were too many */
	struct msg_open_memory waiting[LIMIT_MEMORY_REQUESTS]; /* oldest first */
	unsigned int waiting_count;
};

/* Keeps a permission. Returns 0 or -ENOMEM. */
int memory_permits_allow(struct memory_permits *permits, const struct msg_allow_memory *allowed);

/* Removes a permission, unless it is of another generation already. */
void memory_permits_forbid(struct memory_permits *permits, const struct msg_open_memory *forbidden);

/* Returns the permission for exactly this program of the process, or NULL. */
struct memory_permit *memory_permits_find(struct memory_permits *permits,
					  const struct msg_open_memory *request);

/* Lets a request wait for its permission. Returns true if another one had to give way, which is in
 * `refused`. */
bool memory_permits_wait(struct memory_permits *permits, const struct msg_open_memory *request,
			 struct msg_open_memory *refused);

/* Returns whether a request for this program was waiting, which it no longer does. */
bool memory_permits_take_waiting(struct memory_permits *permits,
				 const struct msg_allow_memory *allowed);

/* Frees everything. */
void memory_permits_fini(struct memory_permits *permits);

#endif
