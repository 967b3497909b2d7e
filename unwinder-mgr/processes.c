/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see processes.h. */
#include "unwinder-mgr/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "parse/proc_maps.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/memory_permits.h"
#include "unwinder-mgr/process_reports.h"
#include "unwinder-mgr/process_slots.h"

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

struct mapping_list *processes_own_list(struct manager *manager, struct process *process)
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

static struct process *process_new(struct processes *processes, uint32_t tgid)
{
	struct process *process = calloc(1, sizeof(*process));
	struct process **bucket = process_bucket(processes, tgid);

	if (!process)
		return NULL;
	process->tgid = tgid;
	process->exec_generation = ++processes->last_exec_generation;
	process->scan = processes->scans;
	process->ask_at = LIMIT_TENANT_EVENTS;
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

/* Notes that a process was running at a time of clock_monotonic_ns(). */
static void process_set_alive(struct process *process, uint64_t time_ns)
{
	const uint64_t boot_ns = clock_monotonic_to_boot_ns(time_ns);

	if (process->alive_ns < boot_ns)
		process->alive_ns = boot_ns;
}

static void process_wait_for(struct processes *processes, struct process *process, uint32_t tgid,
			     uint32_t generation)
{
	processes->waiting += (tgid != 0) - (process->waits_for != 0);
	process->waits_for = tgid;
	process->waits_for_generation = generation;
}

/* Lets the process belong to the tenant with this share. Takes over the reference. */
static void process_set_share(struct process *process, struct share *share)
{
	share_unref(process->share);
	process->share = share;
}

static void process_set_outdated(struct manager *manager, struct process *process)
{
	if (process->outdated)
		return;
	shares_log_refusal(&manager->shares,
			   process->share ? process->share : &manager->shares.others, "processes");
	process->outdated = true;
	/* Which process has the pid now does not matter, since it has no mappings. */
	process_set_alive(process, clock_monotonic_ns());
	mapping_list_put(process->list, &manager->slabs);
	process->list = process_slots_nothing(manager);
	if (process->list)
		process->list->users++;
	process_mark_dirty(&manager->processes, process);
}

/* Returns whether what the process does is followed. Otherwise it is outdated. */
static bool process_follow(struct manager *manager, struct process *process)
{
	if (!shares_follow(&manager->shares, process->share))
		process_set_outdated(manager, process);
	return !process->outdated;
}

void processes_set_tenant(struct manager *manager, uint32_t tgid, struct tenant tenant)
{
	struct process *process = process_ensure(&manager->processes, tgid);

	if (!process || tenant.uid == TENANT_UID_UNKNOWN)
		return;
	/* The worker is told again. */
	if (share_tenant(process->share).container != tenant.container) {
		process->announced = false;
		process_mark_dirty(&manager->processes, process);
	}
	process_set_share(process, shares_get(&manager->shares, tenant));
}

struct tenant processes_tenant(struct manager *manager, uint32_t tgid, uint32_t uid)
{
	const struct process *process = processes_find(&manager->processes, tgid);

	return tenant_of(uid, process ? share_tenant(process->share).container : 0);
}

/* Counts an event of a process. One that causes many must not count as its parent's tenant, so the
 * opener is asked whose it is. */
static void process_count_event(struct manager *manager, struct process *process)
{
	if (++process->events < process->ask_at)
		return;
	process->ask_at = process->events + LIMIT_TENANT_EVENTS;
	processes_rescan(manager, process->tgid, clock_monotonic_ns());
}

void processes_fork(struct manager *manager, uint32_t parent, uint32_t child, uint64_t time_ns)
{
	struct processes *processes = &manager->processes;
	struct process *from = process_ensure(processes, parent);
	struct process *to = process_ensure(processes, child);

	if (!from || !to)
		return;
	/* This takes little time, so it is done in any case. */
	shares_follow(&manager->shares, from->share);
	struct mapping_list *list = from->list;
	if (list)
		list->users++;
	memory_permit_withdraw(manager, to);
	mapping_list_put(to->list, &manager->slabs);
	mapping_list_put(to->previous, &manager->slabs);
	to->previous = NULL;
	to->list = list;
	to->exited_ns = to->rescanned_ns = 0;
	to->forked_ns = time_ns;
	process_set_alive(to, time_ns);
	to->exec_generation = ++processes->last_exec_generation;
	to->scan = processes->scans;
	to->refused = from->refused;
	to->leader_ended = false;
	to->outdated = from->outdated;
	to->requests = 0;
	process_set_share(to, share_ref(from->share));
	process_count_event(manager, from);
	to->events = from->events;
	to->ask_at = from->ask_at;
	memcpy(to->comm, from->comm, sizeof(to->comm));
	if (list)
		process_wait_for(processes, to, 0, 0);
	else if (from->waits_for)
		process_wait_for(processes, to, from->waits_for, from->waits_for_generation);
	else
		process_wait_for(processes, to, parent, from->exec_generation);
	to->announced = false;
	to->ask_when_old = true;
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
	process->scan = manager->processes.scans;
	process->list = mapping_list_new();
	process->refused = process->outdated = process->leader_ended = false;
	process_wait_for(&manager->processes, process, 0, 0);
	process->exited_ns = process->rescanned_ns = 0;
	process_set_alive(process, time_ns);
	process->announced = false;
	copy_comm(process->comm, comm);
	process_mark_dirty(&manager->processes, process);
	process_follow(manager, process);
	/* Who executes a program is often somebody else than before. */
	process->ask_when_old = true;
	if (process->events >= LIMIT_TENANT_EVENTS) {
		process->events = LIMIT_TENANT_EVENTS / 2;
		process->ask_at = LIMIT_TENANT_EVENTS;
	}
	process_count_event(manager, process);
}

void processes_exit(struct manager *manager, uint32_t tgid, uint64_t now_ns)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (!process)
		return;
	shares_follow(&manager->shares, process->share);
	process->exited_ns = now_ns;
	memory_permit_withdraw(manager, process);
}

void processes_watch_end(struct manager *manager, uint32_t tgid)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (process)
		process->leader_ended = true;
}

void processes_on_answer(struct manager *manager, uint32_t tgid, uint32_t error, bool empty)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (!process || process->exited_ns)
		return;
	/* If it was not asked for since its fork, the answer may be about another one. */
	if (error == ENOENT || error == ESRCH) {
		if (process->rescanned_ns)
			processes_exit(manager, tgid, clock_monotonic_ns());
		return;
	}
	/* One that has lost its maps is about to end, and is looked at again. Kernel threads never
	 * had any. */
	if (!empty || !process->list || !process->list->count)
		process->scan = manager->processes.scans;
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
	struct mapping_list *list = process && process_follow(manager, process)
					? processes_own_list(manager, process)
					: NULL;
	struct mapping added = *mapping;

	if (!list || mapping->start >= mapping->end || mapping->end >> 62)
		return;
	added.module = find_module(manager, process, mapping, key, path);
	mapping_list_insert(list, &added);
	process_count_event(manager, process);
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

/* Does what processes_exec() does, as far as that is still possible, if the process executes
 * another program than before. */
static void process_notice_exec(struct manager *manager, struct process *process,
				const struct mapping_list *before)
{
	const struct module *vdso = manager->modules.vdso;
	const uint64_t old = mapping_list_start_of(before, vdso);
	const uint64_t present = mapping_list_start_of(process->list, vdso);

	if (!old || !present || old == present)
		return;
	memory_permit_withdraw(manager, process);
	process->exec_generation = ++manager->processes.last_exec_generation;
}

bool processes_may_read_maps(struct manager *manager, uint32_t tgid, struct tenant tenant)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (process) {
		processes_set_tenant(manager, tgid, tenant);
		if (shares_follow(&manager->shares, process->share))
			return true;
		process_set_outdated(manager, process);
		return false;
	}
	/* One that is sampled is requested again. */
	struct share *share =
	    tenant.uid == TENANT_UID_UNKNOWN ? NULL : shares_get(&manager->shares, tenant);
	const bool may = shares_follow(&manager->shares, share);
	share_unref(share); /* it stays until this role waits for work again */
	return may;
}

void processes_set_maps(struct manager *manager, uint32_t tgid, const char *maps, size_t length,
			const char *comm, uint64_t time_ns)
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
	process_set_alive(process, time_ns);
	process->refused = process->outdated = process->ask_when_old = false;
	process->leader_ended = false;
	if (process->ask_at / LIMIT_TENANT_EVENTS_FACTOR < process->events)
		process->ask_at = process->events * LIMIT_TENANT_EVENTS_FACTOR;
	copy_comm(process->comm, comm);
	struct maps_reader reader = {manager, process};
	proc_maps_parse(maps, length, on_maps_line, &reader);
	process_notice_exec(manager, process, old);
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

const struct mapping_list *processes_list_at(struct manager *manager,
					     const struct bh_sample *sample)
{
	struct process *process = processes_find(&manager->processes, sample->tgid);

	/* Otherwise another process had this pid, before this one or after it. */
	if (!process || process->alive_ns < sample->process_start_ns ||
	    sample->time_ns < process->forked_ns)
		return NULL;
	struct mapping_list *list = process->previous && sample->time_ns < process->exec_ns
					? process->previous
					: process->list;
	return list && list->count && process_slots_publish_list(manager, process, &list) == 0
		   ? list
		   : NULL;
}

void processes_publish(struct manager *manager)
{
	struct process *process = manager->processes.dirty, *waiting = NULL;

	manager->processes.dirty = NULL;
	while (process) {
		struct process *next = process->next_dirty;

		/* The mappings are there already, so this is done in any case. */
		shares_follow(&manager->shares, process->share);
		int r = process_slots_publish(manager, process);
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
	shares_follow_nobody(&manager->shares);
	while (waiting) {
		struct process *next = waiting->next_dirty;

		waiting->next_dirty = manager->processes.dirty;
		manager->processes.dirty = waiting;
		waiting = next;
	}
}

/* Requests /proc/TGID/maps from the opener. */
static void process_request_maps(struct manager *manager, struct process *process, uint64_t now_ns)
{
	const struct msg_open_maps request = {.tgid = process->tgid,
					      .container = share_tenant(process->share).container};

	process->rescanned_ns = now_ns;
	peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_OPEN_MAPS, &request, sizeof(request),
		  NULL, 0);
}

/* Returns whether the process's maps have not been requested for some time. */
static bool process_may_rescan(const struct manager *manager, const struct process *process,
			       uint64_t now_ns)
{
	const uint64_t lost_ns = manager->sideband.lost_ns;
	uint64_t pause_ms = LIMIT_RESCAN_MS;

	if (process->list && process->list->full)
		pause_ms = LIMIT_REFUSED_RETRY_MS;
	else if (lost_ns && now_ns - lost_ns < LIMIT_LOST_LATELY_MS * NS_PER_MS)
		pause_ms = LIMIT_RESCAN_LOST_MS;

	return !process->rescanned_ns || now_ns - process->rescanned_ns >= pause_ms * NS_PER_MS;
}

void processes_rescan(struct manager *manager, uint32_t tgid, uint64_t now_ns)
{
	struct process *process = process_ensure(&manager->processes, tgid);

	if (!process || !process_may_rescan(manager, process, now_ns))
		return;
	if (process_follow(manager, process))
		process_request_maps(manager, process, now_ns);
	shares_follow_nobody(&manager->shares);
}

/* Returns whether a process may have ended without an event: the last scan has not found it, or
 * there is none for the end of its last thread. */
static bool process_is_unseen(const struct processes *processes, const struct process *process)
{
	return process->leader_ended || process->scan < processes->scans_done;
}

/* Returns whether the opener is to be asked whose a process is, since it has run for a while. */
static bool process_is_old(const struct process *process, uint64_t now_ns)
{
	return process->ask_when_old &&
	       now_ns >= process->forked_ns + LIMIT_TENANT_AGE_MS * NS_PER_MS &&
	       now_ns >= process->exec_ns + LIMIT_TENANT_AGE_MS * NS_PER_MS;
}

/* Tries again what a process was refused. Returns whether its maps were requested, because there is
 * time for it again, because it may have ended, or because its tenant may have changed. */
static bool process_retry(struct manager *manager, struct process *process, bool may_follow,
			  uint64_t now_ns)
{
	if (process->exited_ns)
		return false;
	if (process->list && process->list->count &&
	    (!process->slot || !process->list->block.bytes))
		process_mark_dirty(&manager->processes, process);
	if (process_is_unseen(&manager->processes, process) && may_follow &&
	    (!process->rescanned_ns ||
	     now_ns - process->rescanned_ns >= LIMIT_UNSEEN_RETRY_MS * NS_PER_MS)) {
		process_request_maps(manager, process, now_ns);
		return true;
	}
	if (process->outdated) {
		if (!may_follow || !process_may_rescan(manager, process, now_ns) ||
		    !shares_follow(&manager->shares, process->share))
			return false;
		process_request_maps(manager, process, now_ns);
		return true;
	}
	if (may_follow && process_is_old(process, now_ns)) {
		process->ask_when_old = false;
		process_request_maps(manager, process, now_ns);
		return true;
	}
	if (process->refused &&
	    now_ns - process->rescanned_ns >= LIMIT_REFUSED_RETRY_MS * NS_PER_MS &&
	    modules_allow(&manager->modules, process->share))
		processes_rescan(manager, process->tgid, now_ns);
	return false;
}

void processes_retry(struct manager *manager, uint64_t now_ns)
{
	unsigned int followed = 0;

	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next)
			followed +=
			    process_retry(manager, p, followed < LIMIT_FOLLOW_AGAIN, now_ns);
	}
	shares_follow_nobody(&manager->shares);
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
			process_slots_clear(p);
			mapping_list_put(p->list, &manager->slabs);
			mapping_list_put(p->previous, &manager->slabs);
			process_set_share(p, NULL);
			process_wait_for(&manager->processes, p, 0, 0);
			manager->processes.count--;
			free(p);
		}
	}
}
