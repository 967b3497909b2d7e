/* SPDX-License-Identifier: Apache-2.0 */
/* The published table in which BPF finds the mappings of a process. How this works: see
 * processes.h. */
#ifndef UNWINDER_MGR_PROCESS_SLOTS_H
#define UNWINDER_MGR_PROCESS_SLOTS_H

#include "unwinder-mgr/mapping_list.h"

struct manager;
struct process;

/* Publishes the process's list and writes its entry, or clears the entry if it has none. Returns 0;
 * -EAGAIN if that has to wait for a slab; or another negative errno. */
int process_slots_publish(struct manager *manager, struct process *process);

/* Publishes a list of a process. If there is no room for it, *list becomes the list of nothing.
 * Returns as mapping_list_publish. */
int process_slots_publish_list(struct manager *manager, struct process *process,
			       struct mapping_list **list);

/* Makes the process's entry of the table free. */
void process_slots_clear(struct process *process);

/* Returns the list of processes whose own list is not published: all memory belongs to `no_room`,
 * so that their stacks end with a reason. NULL if there is no memory. The caller adds a user. */
struct mapping_list *process_slots_nothing(struct manager *manager);

#endif
