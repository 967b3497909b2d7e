/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see processes.h. */
#include "unwinder-mgr/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/sequence_lock.h"
#include "parse/proc_maps.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/memory_permits.h"

static struct process **process_bucket(struct processes *processes, uint32_t tgid)
{
	return &processes->buckets[tgid % PROCESS_BUCKETS];
}

struct process *processes_find(struct processes *processes, uint32_t tgid)
{
	for (struct process *p = *process_bucket(processes, tgid); p; p = p->next) {
		if (p->tgid == tgid)
			return p;
	}
	return NULL;
}

static void process_mark_dirty(struct processes *processes, struct process *process)
{
	if (process->dirty)
		return;
	process->dirty = true;
	process->next_dirty = processes->dirty;
	processes->dirty = process;
}

/* Returns a list that only this process uses and that is not published, so that it may be changed;
 * NULL if there is no memory. */
static struct mapping_list *process_own_list(struct manager *manager, struct process *process)
{
	struct mapping_list *old = process->list;

	if (old && old->users == 1) {
		mapping_list_withdraw(old, &manager->slabs);
		process_mark_dirty(&manager->processes, process);
		return old;
	}
	struct mapping_list *list = mapping_list_copy(old);
	if (!list)
		return NULL;
	mapping_list_put(old, &manager->slabs);
	process->list = list;
	process_mark_dirty(&manager->processes, process);
	return list;
}

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

static struct process *process_new(struct processes *processes, uint32_t tgid)
{
	struct process *process = calloc(1, sizeof(*process));
	struct process **bucket = process_bucket(processes, tgid);

	if (!process)
		return NULL;
	process->tgid = tgid;
	process->exec_generation = ++processes->last_exec_generation;
	process->next = *bucket;
	*bucket = process;
	processes->count++;
	return process;
}

static struct process *process_ensure(struct processes *processes, uint32_t tgid)
{
	struct process *process = processes_find(processes, tgid);

	return process ? process : process_new(processes, tgid);
}

static void process_wait_for(struct processes *processes, struct process *process, uint32_t tgid,
			     uint32_t generation)
{
	processes->waiting += (tgid != 0) - (process->waits_for != 0);
	process->waits_for = tgid;
	process->waits_for_generation = generation;
}

/* Tells the worker which program a process executes: the first module of its list that is a
 * file. */
static void process_announce(struct manager *manager, struct process *process)
{
	struct msg_process message = {.tgid = process->tgid,
				      .exec_generation = process->exec_generation};

	memcpy(message.comm, process->comm, sizeof(message.comm));
	for (size_t i = 0; process->list && i < process->list->count; i++) {
		const struct module *module = process->list->mappings[i].module;

		if (module && module->path[0] == '/') {
			memcpy(message.path, module->path, sizeof(message.path));
			break;
		}
	}
	process->announced = true;
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_PROCESS, &message, sizeof(message),
		  NULL, 0);
}

/* Lets the process belong to the user with this share. Takes over the reference. */
static void process_set_share(struct process *process, struct share *share)
{
	share_unref(process->share);
	process->share = share;
}

void processes_set_uid(struct manager *manager, uint32_t tgid, uint32_t uid)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (process && uid != MSG_UID_UNKNOWN)
		process_set_share(process, shares_get(&manager->shares, uid));
}

void processes_fork(struct manager *manager, uint32_t parent, uint32_t child)
{
	struct processes *processes = &manager->processes;
	struct process *from = process_ensure(processes, parent);
	struct process *to = process_ensure(processes, child);

	if (!from || !to)
		return;
	struct mapping_list *list = from->list;
	if (list)
		list->users++;
	memory_permit_withdraw(manager, to);
	mapping_list_put(to->list, &manager->slabs);
	mapping_list_put(to->previous, &manager->slabs);
	to->previous = NULL;
	to->list = list;
	to->exited_ns = to->rescanned_ns = 0;
	to->exec_generation = ++processes->last_exec_generation;
	to->refused = from->refused;
	to->requests = 0;
	process_set_share(to, share_ref(from->share));
	memcpy(to->comm, from->comm, sizeof(to->comm));
	if (list)
		process_wait_for(processes, to, 0, 0);
	else if (from->waits_for)
		process_wait_for(processes, to, from->waits_for, from->waits_for_generation);
	else
		process_wait_for(processes, to, parent, from->exec_generation);
	to->announced = false;
	process_mark_dirty(processes, to);
}

static void copy_comm(char to[BH_COMM_BYTES], const char *from)
{
	size_t n = strnlen(from, BH_COMM_BYTES - 1);

	memcpy(to, from, n);
	memset(to + n, 0, BH_COMM_BYTES - n);
}

void processes_exec(struct manager *manager, uint32_t tgid, const char *comm, uint64_t time_ns)
{
	struct process *process = process_ensure(&manager->processes, tgid);

	if (!process)
		return;
	memory_permit_withdraw(manager, process);
	mapping_list_put(process->previous, &manager->slabs);
	process->previous = process->list;
	process->exec_ns = time_ns;
	process->exec_generation = ++manager->processes.last_exec_generation;
	process->list = mapping_list_new();
	process->refused = false;
	process_wait_for(&manager->processes, process, 0, 0);
	process->exited_ns = process->rescanned_ns = 0;
	process->announced = false;
	copy_comm(process->comm, comm);
	process_mark_dirty(&manager->processes, process);
}

void processes_exit(struct manager *manager, uint32_t tgid, uint64_t now_ns)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (!process)
		return;
	process->exited_ns = now_ns;
	memory_permit_withdraw(manager, process);
}

/* Returns the module of a mapping, with one use more, or NULL for memory without a file. The kernel
 * reports such memory under names like "//anon" and "[heap]". */
static struct module *find_module(struct manager *manager, struct process *process,
				  const struct mapping *mapping, const struct module_key *key,
				  const char *path)
{
	if (!strcmp(path, "[vdso]"))
		return modules_get_vdso(manager);
	if (path[0] != '/' || path[1] == '/' || !key->inode)
		return NULL;
	return modules_get(manager, key, process, mapping->start, mapping->end, path);
}

void processes_map(struct manager *manager, uint32_t tgid, const struct mapping *mapping,
		   const struct module_key *key, const char *path)
{
	struct process *process = process_ensure(&manager->processes, tgid);
	struct mapping_list *list = process ? process_own_list(manager, process) : NULL;
	struct mapping added = *mapping;

	if (!list || mapping->start >= mapping->end || mapping->end >> 62)
		return;
	added.module = find_module(manager, process, mapping, key, path);
	mapping_list_insert(list, &added);
}

struct maps_reader {
	struct manager *manager;
	struct process *process;
};

static void on_maps_line(void *context, const struct proc_mapping *line)
{
	struct maps_reader *reader = context;
	char path[4096];

	if (!line->executable || line->end >> 62)
		return;
	size_t length = line->path_length < sizeof(path) ? line->path_length : sizeof(path) - 1;
	memcpy(path, line->path, length);
	path[length] = 0;
	struct mapping mapping = {
	    .start = line->start, .end = line->end, .file_offset = line->file_offset};
	struct module_key key = {.device_major = line->device_major,
				 .device_minor = line->device_minor,
				 .inode = line->inode};
	mapping.module = find_module(reader->manager, reader->process, &mapping, &key, path);
	mapping_list_insert(reader->process->list, &mapping);
}

/* Lets the children that were forked before the process's maps were read share its list. */
static void process_share_list(struct manager *manager, struct process *process)
{
	struct processes *processes = &manager->processes;

	for (unsigned int i = 0; i < PROCESS_BUCKETS && processes->waiting; i++) {
		for (struct process *p = processes->buckets[i]; p; p = p->next) {
			if (p->waits_for != process->tgid)
				continue;
			if (!p->list && p->waits_for_generation == process->exec_generation) {
				p->list = process->list;
				p->list->users++;
				memcpy(p->comm, process->comm, sizeof(p->comm));
				process_mark_dirty(processes, p);
			}
			process_wait_for(processes, p, 0, 0);
		}
	}
}

void processes_set_maps(struct manager *manager, uint32_t tgid, const char *maps, size_t length,
			const char *comm)
{
	struct process *process = process_ensure(&manager->processes, tgid);
	struct mapping_list *list = mapping_list_new();

	if (!process || !list) {
		mapping_list_put(list, &manager->slabs);
		return;
	}
	/* The old list is freed last, so that modules in both lists stay in use. */
	struct mapping_list *old = process->list;
	process->list = list;
	process->refused = false;
	copy_comm(process->comm, comm);
	struct maps_reader reader = {manager, process};
	proc_maps_parse(maps, length, on_maps_line, &reader);
	mapping_list_put(old, &manager->slabs);
	process_wait_for(&manager->processes, process, 0, 0);
	process_share_list(manager, process);
	process->announced = false;
	/* A list that was requested before the process ended does not revive it. One that was
	 * requested later is of another process with this pid, whose fork was missed. */
	if (process->rescanned_ns > process->exited_ns)
		process->exited_ns = 0;
	process_mark_dirty(&manager->processes, process);
	manager->modules.generation++;
}

const struct mapping_list *processes_list_at(struct manager *manager, uint32_t tgid,
					     uint64_t time_ns)
{
	struct process *process = processes_find(&manager->processes, tgid);
	struct mapping_list *list = NULL;

	if (process)
		list = process->previous && time_ns < process->exec_ns ? process->previous
								       : process->list;
	return list && list->count &&
		       mapping_list_publish(list, &manager->slabs, process->share) == 0
		   ? list
		   : NULL;
}

/* Writes an entry of the published table; without a list the entry becomes free. A walker that
 * reads it meanwhile sees the sequence change. Memory of its runtime may be read when the manager
 * has allowed that, which comes later (memory_permits.h). */
static void slot_write(struct bh_process *slot, uint32_t tgid, const struct mapping_list *list)
{
	sequence_lock_begin(&slot->sequence);
	slot->mapping_slab = list ? list->block.slab : 0;
	slot->mapping_offset = list ? list->block.offset : 0;
	slot->mapping_count = list ? (uint32_t)list->count : 0;
	slot->tgid = list ? tgid : 0;
	slot->runtime_allowed = list ? slot->runtime_allowed : 0;
	sequence_lock_end(&slot->sequence);
}

static int process_publish(struct manager *manager, struct process *process)
{
	struct mapping_list *list = process->list && process->list->count ? process->list : NULL;
	int r = list ? mapping_list_publish(list, &manager->slabs, process->share) : 0;

	if (r < 0 || !list) {
		/* The published copy that the entry points to is about to be reused. */
		if (process->slot)
			slot_write(process->slot, 0, NULL);
		process->slot = NULL;
		return r;
	}
	if (!process->slot)
		process->slot = process_take_slot(&manager->processes, process->tgid);
	/* If all entries near its hash are taken, its stacks are deferred, within limits. */
	if (process->slot)
		slot_write(process->slot, process->tgid, list);
	return 0;
}

/* Reports to the worker where a process maps the modules that the worker watches, or only `only`
 * unless that is NULL. Returns 0, or -EAGAIN if that has to wait for the opener: a process is only
 * reported when its memory is allowed, so the worker's request cannot be refused. */
static int process_report_watched(struct manager *manager, struct process *process,
				  const struct module *only)
{
	const struct mapping_list *list = process->list;
	int r = memory_permit_update(manager, process);

	if (r < 0)
		return r;
	for (size_t i = 0; list && manager->modules.watched && i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];

		if (!m->module || !m->module->watched || (only && m->module != only))
			continue;
		const struct msg_mapped message = {.tgid = process->tgid,
						   .module = m->module->id,
						   .exec_generation = process->exec_generation,
						   .user = share_user(process->share),
						   .start = m->start,
						   .end = m->end,
						   .file_offset = m->file_offset};
		peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MAPPED, &message,
			  sizeof(message), NULL, 0);
	}
	return 0;
}

void processes_watch(struct manager *manager, struct module *module)
{
	if (module->watched)
		return;
	module->watched = true;
	manager->modules.watched++;
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			if (!p->exited_ns && process_report_watched(manager, p, module) < 0)
				process_mark_dirty(&manager->processes, p);
		}
	}
}

/* Reports a process whose mappings have changed to the worker. Returns 0 or -EAGAIN. */
static int process_report(struct manager *manager, struct process *process)
{
	if (!process->announced && process->list && process->list->count)
		process_announce(manager, process);
	return process->exited_ns ? 0 : process_report_watched(manager, process, NULL);
}

void processes_publish(struct manager *manager)
{
	struct process *process = manager->processes.dirty, *waiting = NULL;

	manager->processes.dirty = NULL;
	while (process) {
		struct process *next = process->next_dirty;
		int r = process_publish(manager, process);

		/* A process that has ended needs no entry in the table. If it waited for one, it
		 * could not be freed. */
		if (r != -EAGAIN || process->exited_ns)
			r = process_report(manager, process);
		process->dirty = r == -EAGAIN;
		if (process->dirty) {
			process->next_dirty = waiting;
			waiting = process;
		}
		process = next;
	}
	while (waiting) {
		struct process *next = waiting->next_dirty;

		waiting->next_dirty = manager->processes.dirty;
		manager->processes.dirty = waiting;
		waiting = next;
	}
}

/* Lets the mappings of `module` belong to `other`, which has the same file. */
static void processes_replace_module(struct manager *manager, struct module *module,
				     struct module *other)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			struct mapping_list *list =
			    mapping_list_has(p->list, module) ? process_own_list(manager, p) : NULL;

			if (!list)
				continue;
			mapping_list_replace(list, module, other);
			p->refused |= other == manager->modules.no_room;
		}
	}
	modules_abandon(&manager->modules, module);
}

/* Has the module's file opened again for one process. */
static void process_request_file(struct manager *manager, struct process *process,
				 struct module *module)
{
	struct mapping_list *list = process_own_list(manager, process);

	for (size_t i = 0; list && i < list->count; i++) {
		struct mapping *m = &list->mappings[i];

		if (m->module != module)
			continue;
		m->module =
		    modules_get(manager, &module->key, process, m->start, m->end, module->path);
		module_put(module);
	}
}

/* Has the module's file opened for every process that maps it, except the one for which it was
 * opened already. */
static void processes_unshare_module(struct manager *manager, struct module *module)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			if (p->tgid != module->requested_for && mapping_list_has(p->list, module))
				process_request_file(manager, p, module);
		}
	}
}

void processes_on_file(struct manager *manager, const struct msg_file *answer, int fd)
{
	const struct modules_answer result = modules_on_file(manager, answer, fd);
	struct process *process =
	    result.requested_for ? processes_find(&manager->processes, result.requested_for) : NULL;

	if (process) {
		process->requests -= process->requests > 0;
		processes_set_uid(manager, process->tgid, answer->uid);
	}
	if (result.unshared)
		processes_unshare_module(manager, result.module);
	if (result.duplicate)
		processes_replace_module(manager, result.module, result.duplicate);
}

/* Has the opener asked for every module that is due and that this process maps; not for those that
 * were last opened through this process, unless `again`. */
static void process_request_missing(struct manager *manager, struct process *process, bool again,
				    uint64_t now_ns)
{
	const struct mapping_list *list = process->list;

	for (size_t i = 0; list && i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];

		if (m->module && module_is_due(m->module, now_ns) &&
		    (again || m->module->requested_for != process->tgid))
			module_request(manager, m->module, process, m->start, m->end);
	}
}

void processes_request_missing(struct manager *manager, uint64_t now_ns)
{
	/* The process that was tried last is tried again only if there is no other. */
	for (int again = 0; again <= 1; again++) {
		if (!modules_any_due(&manager->modules, now_ns))
			return;
		for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
			for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
				if (!p->exited_ns)
					process_request_missing(manager, p, again, now_ns);
			}
		}
	}
	modules_postpone_due(&manager->modules, now_ns);
}

void processes_rescan(struct manager *manager, uint32_t tgid, uint64_t now_ns)
{
	struct process *process = process_ensure(&manager->processes, tgid);
	const struct msg_id id = {.id = tgid};

	if (!process ||
	    (process->rescanned_ns && now_ns - process->rescanned_ns < LIMIT_RESCAN_MS * NS_PER_MS))
		return;
	process->rescanned_ns = now_ns;
	peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_OPEN_MAPS, &id, sizeof(id), NULL, 0);
}

/* Tries again what a process was refused. */
static void process_retry(struct manager *manager, struct process *process, uint64_t now_ns)
{
	if (process->exited_ns)
		return;
	if (!process->slot && process->list && process->list->count)
		process_mark_dirty(&manager->processes, process);
	if (process->refused &&
	    now_ns - process->rescanned_ns >= LIMIT_REFUSED_RETRY_MS * NS_PER_MS &&
	    modules_allow(&manager->modules, process->share))
		processes_rescan(manager, process->tgid, now_ns);
}

void processes_retry(struct manager *manager, uint64_t now_ns)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next)
			process_retry(manager, p, now_ns);
	}
}

void processes_reclaim(struct manager *manager, uint64_t now_ns)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process **link = &manager->processes.buckets[i]; *link;) {
			struct process *p = *link;

			if (!p->exited_ns || p->dirty ||
			    now_ns < p->exited_ns + LIMIT_EXIT_GRACE_MS * NS_PER_MS) {
				link = &p->next;
				continue;
			}
			*link = p->next;
			const struct msg_id id = {.id = p->tgid};
			peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_PROCESS_GONE, &id,
				  sizeof(id), NULL, 0);
			if (p->slot)
				slot_write(p->slot, 0, NULL);
			mapping_list_put(p->list, &manager->slabs);
			mapping_list_put(p->previous, &manager->slabs);
			process_set_share(p, NULL);
			process_wait_for(&manager->processes, p, 0, 0);
			manager->processes.count--;
			free(p);
		}
	}
}
