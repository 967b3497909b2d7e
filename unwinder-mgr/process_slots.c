/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/process_slots.h"

#include <errno.h>

#include "common/sequence_lock.h"
#include "unwinder-mgr/manager.h"

/* Returns a free entry of the published table near the process's hash, or NULL. */
static struct bh_process *process_take_slot(struct processes *processes, uint32_t tgid)
{
	const uint32_t home = bh_process_hash(tgid);

	for (uint32_t i = 0; i < BH_PROCESS_PROBES; i++) {
		struct bh_process *slot =
		    &processes->table->slots[(home + i) & ((1u << BH_PROCESSES_BITS) - 1)];

		if (!slot->tgid)
			return slot;
	}
	return NULL;
}

struct mapping_list *process_slots_nothing(struct manager *manager)
{
	const struct mapping all = {.end = UINT64_C(1) << 62, .module = manager->modules.no_room};
	struct mapping_list *list = manager->processes.nothing;

	if (!list) {
		list = mapping_list_new();
		if (!list)
			return NULL;
		module_get(all.module);
		mapping_list_insert(list, &all);
		manager->processes.nothing = list;
	}
	return list;
}

int process_slots_publish_list(struct manager *manager, struct process *process,
			       struct mapping_list **list)
{
	struct mapping_list *nothing = manager->processes.nothing;
	int r =
	    mapping_list_publish(*list, &manager->slabs, *list == nothing ? NULL : process->share);

	if (r >= 0 || r == -EAGAIN || *list == nothing)
		return r;
	shares_log_refusal(&manager->shares, process->share, "bytes");
	nothing = process_slots_nothing(manager);
	if (!nothing)
		return r;
	*list = nothing;
	return mapping_list_publish(nothing, &manager->slabs, NULL);
}

/* Writes an entry of the published table; without a list the entry becomes free. A walker that
 * reads it meanwhile sees the sequence change. Memory of its runtime may be read when the manager
 * has allowed that, which comes later (memory_permits.h). */
static void process_slot_write(struct bh_process *slot, const struct process *process,
			       const struct mapping_list *list)
{
	sequence_lock_begin(&slot->sequence);
	slot->mapping_slab = list ? list->block.slab : 0;
	slot->mapping_offset = list ? list->block.offset : 0;
	slot->mapping_count = list ? (uint32_t)list->count : 0;
	slot->tgid = list ? process->tgid : 0;
	slot->alive_ns = process->alive_ns;
	slot->runtime_allowed = list ? slot->runtime_allowed : 0;
	sequence_lock_end(&slot->sequence);
}

void process_slots_clear(struct process *process)
{
	if (process->slot)
		process_slot_write(process->slot, process, NULL);
	process->slot = NULL;
}

int process_slots_publish(struct manager *manager, struct process *process)
{
	struct mapping_list *list = process->list && process->list->count ? process->list : NULL;
	int r = list ? process_slots_publish_list(manager, process, &list) : 0;

	if (r < 0 || !list) {
		/* The published copy that the entry points to is about to be reused. */
		process_slots_clear(process);
		return r;
	}
	if (!process->slot)
		process->slot = process_take_slot(&manager->processes, process->tgid);
	/* If all entries near its hash are taken, its stacks are deferred, within limits. */
	if (process->slot)
		process_slot_write(process->slot, process, list);
	return 0;
}
