/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see memory_permits.h. */
#include "unwinder-mgr/memory_permits.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "unwinder-mgr/manager.h"

/* Returns the first mapping of a module with which the worker may do this much, or NULL. */
static const struct mapping *first_watched(const struct manager *manager,
					   const struct process *process,
					   enum runtime_access access)
{
	const struct mapping_list *list = process->list;

	for (size_t i = 0; list && manager->modules.watched && i < list->count; i++) {
		if (list->mappings[i].module && list->mappings[i].module->watched >= access)
			return &list->mappings[i];
	}
	return NULL;
}

/* Tells the kernel side whether it may walk managed frames of the process. */
static void permit_publish(const struct process *process, bool is_watched)
{
	if (process->slot)
		__atomic_store_n(&process->slot->runtime_allowed, is_watched, __ATOMIC_RELEASE);
}

/* Ends the opener's permission, if there is one. */
static void permit_forbid(struct manager *manager, struct process *process)
{
	const struct msg_open_memory forbidden = {
	    .tgid = process->tgid, .exec_generation = process->allowed.exec_generation};

	if (!forbidden.exec_generation)
		return;
	/* If the message is lost, the opener finds that the process no longer has the mapping. */
	peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_FORBID_MEMORY, &forbidden,
		  sizeof(forbidden), NULL, 0);
	process->allowed = (struct msg_allow_memory){0};
}

int memory_permit_update(struct manager *manager, struct process *process)
{
	const struct mapping *mapping = first_watched(manager, process, RUNTIME_ACCESS_READ);

	if (!mapping) {
		permit_forbid(manager, process);
		permit_publish(process, first_watched(manager, process, RUNTIME_ACCESS_WALK));
		return 0;
	}
	/* The numbers of stat(2), which those of the mapping may differ from (modules.h). */
	const struct stat *file = &mapping->module->file;
	const struct msg_allow_memory allowed = {
	    .address_start = mapping->start,
	    .address_end = mapping->end,
	    .inode = file->st_ino,
	    .device_major = major(file->st_dev),
	    .device_minor = minor(file->st_dev),
	    .tgid = process->tgid,
	    .exec_generation = process->exec_generation,
	    .container = share_tenant(process->share).container,
	};
	if (!memcmp(&allowed, &process->allowed, sizeof(allowed))) {
		permit_publish(process, true);
		return 0;
	}
	if (peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_ALLOW_MEMORY, &allowed,
		      sizeof(allowed), NULL, 0) == -ENOBUFS)
		return -EAGAIN;
	process->allowed = allowed;
	permit_publish(process, true);
	return 0;
}

void memory_permit_withdraw(struct manager *manager, struct process *process)
{
	permit_forbid(manager, process);
	permit_publish(process, false);
}
