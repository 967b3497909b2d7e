/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "parse/proc_maps.h"
#include "unwinder-mgr/manager.h"

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

static void process_mark(struct processes *processes, struct process *process)
{
	if (process->dirty)
		return;
	process->dirty = true;
	process->next_dirty = processes->dirty;
	processes->dirty = process;
}

static void list_put(struct manager *manager, struct mapping_list *list)
{
	if (!list || --list->users)
		return;
	for (unsigned int i = 0; i < list->count; i++) {
		if (list->mappings[i].module)
			modules_put(list->mappings[i].module);
	}
	slabs_retire(&manager->slabs, &list->block);
	free(list->mappings);
	free(list);
}

static struct mapping_list *list_new(void)
{
	struct mapping_list *list = calloc(1, sizeof(*list));

	if (list)
		list->users = 1;
	return list;
}

/* A list that only this process has, ready to be changed; what is published of it is given up. */
static struct mapping_list *process_own_list(struct manager *manager, struct process *process)
{
	struct mapping_list *old = process->list;

	if (old && old->users == 1) {
		slabs_retire(&manager->slabs, &old->block);
		old->block = (struct slab_block){0};
		process_mark(&manager->processes, process);
		return old;
	}
	struct mapping_list *list = list_new();
	if (!list)
		return NULL;
	if (old && old->count) {
		list->mappings = malloc(old->count * sizeof(old->mappings[0]));
		if (!list->mappings) {
			free(list);
			return NULL;
		}
		memcpy(list->mappings, old->mappings, old->count * sizeof(old->mappings[0]));
		list->count = list->capacity = old->count;
		for (unsigned int i = 0; i < list->count; i++) {
			if (list->mappings[i].module)
				modules_use(list->mappings[i].module);
		}
	}
	list_put(manager, old);
	process->list = list;
	process_mark(&manager->processes, process);
	return list;
}

static bool list_reserve(struct mapping_list *list, unsigned int more)
{
	if (list->count + more > PROCESS_MAPPINGS_MAX)
		return false;
	if (list->count + more <= list->capacity)
		return true;
	unsigned int capacity = list->capacity + list->capacity / 2 + 8;
	struct mapping *grown = realloc(list->mappings, capacity * sizeof(*grown));
	if (!grown)
		return false;
	list->mappings = grown;
	list->capacity = capacity;
	return true;
}

static void list_remove(struct mapping_list *list, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		if (list->mappings[i].module)
			modules_put(list->mappings[i].module);
	}
	memmove(&list->mappings[first], &list->mappings[first + count],
		(list->count - first - count) * sizeof(list->mappings[0]));
	list->count -= count;
}

/* Cut [start, end) out: there is no record of munmap, but what is mapped later replaces what was
 * there. */
static bool list_cut(struct mapping_list *list, uint64_t start, uint64_t end)
{
	unsigned int first = 0;

	while (first < list->count && list->mappings[first].end <= start)
		first++;
	if (first == list->count || list->mappings[first].start >= end)
		return true;
	struct mapping *m = &list->mappings[first];
	if (m->start < start && m->end > end) {
		/* Split in two. */
		if (!list_reserve(list, 1))
			return false;
		m = &list->mappings[first];
		memmove(m + 1, m, (list->count - first) * sizeof(*m));
		list->count++;
		if (m->module)
			modules_use(m->module);
		m->end = start;
		m[1].file_offset += end - m[1].start;
		m[1].start = end;
		return true;
	}
	if (m->start < start) {
		m->end = start;
		first++;
	}
	unsigned int last = first;
	while (last < list->count && list->mappings[last].end <= end)
		last++;
	list_remove(list, first, last - first);
	if (first < list->count && list->mappings[first].start < end) {
		m = &list->mappings[first];
		m->file_offset += end - m->start;
		m->start = end;
	}
	return true;
}

/* Takes over the mapping's use of its module, also when there is no room. */
static void list_insert(struct mapping_list *list, const struct mapping *mapping)
{
	unsigned int at = 0;

	if (!list_cut(list, mapping->start, mapping->end) || !list_reserve(list, 1)) {
		if (mapping->module)
			modules_put(mapping->module);
		return;
	}
	while (at < list->count && list->mappings[at].start < mapping->start)
		at++;
	memmove(&list->mappings[at + 1], &list->mappings[at],
		(list->count - at) * sizeof(*mapping));
	list->mappings[at] = *mapping;
	list->count++;
}

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
	process->program = ++processes->programs;
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

/* For the worker: which program this is. */
static void process_announce(struct manager *manager, struct process *process)
{
	struct msg_process message = {.tgid = process->tgid, .program = process->program};

	memcpy(message.comm, process->comm, sizeof(message.comm));
	for (unsigned int i = 0; process->list && i < process->list->count; i++) {
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

void processes_fork(struct manager *manager, uint32_t parent, uint32_t child)
{
	struct processes *processes = &manager->processes;
	struct process *from = processes_find(processes, parent);
	struct process *to = process_ensure(processes, child);

	if (!to)
		return;
	struct mapping_list *list = from ? from->list : NULL;
	if (list)
		list->users++;
	list_put(manager, to->list);
	list_put(manager, to->previous);
	to->previous = NULL;
	to->list = list;
	to->exited_ns = to->rescanned_ns = 0;
	to->program = ++processes->programs;
	if (from)
		memcpy(to->comm, from->comm, sizeof(to->comm));
	to->announced = false;
	process_mark(processes, to);
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
	list_put(manager, process->previous);
	process->previous = process->list;
	process->exec_ns = time_ns;
	process->program = ++manager->processes.programs;
	process->list = list_new();
	process->exited_ns = process->rescanned_ns = 0;
	process->announced = false;
	copy_comm(process->comm, comm);
	process_mark(&manager->processes, process);
}

void processes_exit(struct manager *manager, uint32_t tgid, uint64_t now_ns)
{
	struct process *process = processes_find(&manager->processes, tgid);

	if (process)
		process->exited_ns = now_ns;
}

/* Which module a mapping belongs to, with a use of it; NULL for memory without a file. */
static struct module *find_module(struct manager *manager, uint32_t tgid,
				  const struct mapping *mapping, const struct module_key *key,
				  const char *path)
{
	if (!strcmp(path, "[vdso]"))
		return modules_get_vdso(manager);
	if (path[0] != '/' || path[1] == '/' || !key->inode)
		return NULL;
	return modules_get(manager, key, tgid, mapping->start, mapping->end, path);
}

void processes_map(struct manager *manager, uint32_t tgid, const struct mapping *mapping,
		   const struct module_key *key, const char *path)
{
	struct process *process = process_ensure(&manager->processes, tgid);
	struct mapping_list *list = process ? process_own_list(manager, process) : NULL;
	struct mapping added = *mapping;

	if (!list || mapping->start >= mapping->end || mapping->end >> 62)
		return;
	added.module = find_module(manager, tgid, mapping, key, path);
	list_insert(list, &added);
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
	mapping.module = find_module(reader->manager, reader->process->tgid, &mapping, &key, path);
	list_insert(reader->process->list, &mapping);
}

void processes_set_maps(struct manager *manager, uint32_t tgid, const char *maps, size_t length,
			const char *comm)
{
	struct process *process = process_ensure(&manager->processes, tgid);
	struct mapping_list *list = list_new();

	if (!process || !list) {
		free(list);
		return;
	}
	/* The old list goes last, so that modules in both stay in use. */
	struct mapping_list *old = process->list;
	process->list = list;
	copy_comm(process->comm, comm);
	struct maps_reader reader = {manager, process};
	proc_maps_parse(maps, length, on_maps_line, &reader);
	list_put(manager, old);
	process->announced = false;
	process->exited_ns = 0;
	process_mark(&manager->processes, process);
	manager->modules.generation++;
}

/* The list in the walker's form. 0; -EAGAIN when there is no room yet. */
static int list_publish(struct manager *manager, struct mapping_list *list)
{
	if (list->block.bytes || !list->count)
		return 0;
	int r = slabs_alloc(&manager->slabs, list->count * sizeof(struct bh_mapping), &list->block);
	if (r < 0)
		return r;
	struct bh_mapping *to = slabs_at(&manager->slabs, &list->block);
	for (unsigned int i = 0; i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];

		to[i] = (struct bh_mapping){.start = m->start, .end = m->end};
		if (m->module) {
			to[i].bias = m->start - m->file_offset;
			to[i].slot = m->module->slot;
			to[i].module_id = m->module->number;
		}
	}
	return 0;
}

const struct mapping_list *processes_list_at(struct manager *manager, uint32_t tgid,
					     uint64_t time_ns)
{
	struct process *process = processes_find(&manager->processes, tgid);
	struct mapping_list *list = NULL;

	if (process)
		list = process->previous && time_ns < process->exec_ns ? process->previous
								       : process->list;
	return list && list->count && list_publish(manager, list) == 0 ? list : NULL;
}

/* Walkers that read the slot meanwhile see the sequence change. Without a list the slot becomes
 * free. */
static void slot_write(struct bh_process *slot, uint32_t tgid, const struct mapping_list *list)
{
	const uint32_t odd = slot->sequence | 1;

	__atomic_store_n(&slot->sequence, odd, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	slot->mapping_slab = list ? list->block.slab : 0;
	slot->mapping_offset = list ? list->block.offset : 0;
	slot->mapping_count = list ? list->count : 0;
	slot->tgid = list ? tgid : 0;
	__atomic_store_n(&slot->sequence, odd + 1, __ATOMIC_RELEASE);
}

static int process_publish(struct manager *manager, struct process *process)
{
	struct mapping_list *list = process->list && process->list->count ? process->list : NULL;
	int r = list ? list_publish(manager, list) : 0;

	if (r < 0 || !list) {
		/* What stands there is about to be reused. */
		if (process->slot)
			slot_write(process->slot, 0, NULL);
		process->slot = NULL;
		return r;
	}
	if (!process->slot)
		process->slot = process_take_slot(&manager->processes, process->tgid);
	/* No slot: the neighbourhood is full, and its stacks are deferred, within limits. */
	if (process->slot)
		slot_write(process->slot, process->tgid, list);
	return 0;
}

/* For the worker: which of the modules that it watches are mapped, and where; only `only`, unless
 * that is NULL. */
static void process_tell_watched(struct manager *manager, const struct process *process,
				 const struct module *only)
{
	const struct mapping_list *list = process->list;

	for (unsigned int i = 0; list && manager->modules.watched && i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];

		if (!m->module || !m->module->watched || (only && m->module != only))
			continue;
		const struct msg_mapped message = {.tgid = process->tgid,
						   .module = m->module->number,
						   .program = process->program,
						   .start = m->start,
						   .end = m->end,
						   .file_offset = m->file_offset};
		peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MAPPED, &message,
			  sizeof(message), NULL, 0);
	}
}

void processes_watch(struct manager *manager, struct module *module)
{
	if (module->watched)
		return;
	module->watched = true;
	manager->modules.watched++;
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			if (!p->exited_ns)
				process_tell_watched(manager, p, module);
		}
	}
}

void processes_publish(struct manager *manager)
{
	struct process *process = manager->processes.dirty, *waiting = NULL;

	manager->processes.dirty = NULL;
	while (process) {
		struct process *next = process->next_dirty;

		if (process_publish(manager, process) == -EAGAIN) {
			process->next_dirty = waiting;
			waiting = process;
		} else {
			process->dirty = false;
			if (!process->announced && process->list && process->list->count)
				process_announce(manager, process);
			if (!process->exited_ns)
				process_tell_watched(manager, process, NULL);
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

static bool list_has(const struct mapping_list *list, const struct module *module)
{
	for (unsigned int i = 0; list && i < list->count; i++) {
		if (list->mappings[i].module == module)
			return true;
	}
	return false;
}

static void list_exchange(struct mapping_list *list, struct module *module, struct module *known)
{
	for (unsigned int i = 0; i < list->count; i++) {
		if (list->mappings[i].module != module)
			continue;
		modules_use(known);
		list->mappings[i].module = known;
		modules_put(module);
	}
}

void processes_replace_module(struct manager *manager, struct module *module, struct module *known)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			struct mapping_list *list =
			    list_has(p->list, module) ? process_own_list(manager, p) : NULL;

			if (list)
				list_exchange(list, module, known);
		}
	}
	manager->modules.generation++;
	/* Nobody maps it now; what it was is forgotten with the next reclaim. */
	module->state = MODULE_UNKNOWN;
}

void processes_reask(struct manager *manager, struct module *module, uint32_t except)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			if (p->tgid == except || !list_has(p->list, module))
				continue;
			struct mapping_list *list = process_own_list(manager, p);
			for (unsigned int j = 0; list && j < list->count; j++) {
				struct mapping *m = &list->mappings[j];

				if (m->module != module)
					continue;
				m->module = modules_get(manager, &module->key, p->tgid, m->start,
							m->end, module->path);
				modules_put(module);
			}
		}
	}
}

void processes_rescan(struct manager *manager, uint32_t tgid, uint64_t now_ns)
{
	struct process *process = process_ensure(&manager->processes, tgid);
	const struct msg_number number = {.number = tgid};

	if (!process || (process->rescanned_ns &&
			 now_ns - process->rescanned_ns < LIMIT_RESCAN_MS * 1000000ull))
		return;
	process->rescanned_ns = now_ns;
	peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_OPEN_MAPS, &number, sizeof(number),
		  NULL, 0);
}

void processes_reclaim(struct manager *manager, uint64_t now_ns)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process **link = &manager->processes.buckets[i]; *link;) {
			struct process *p = *link;

			if (!p->exited_ns || p->dirty ||
			    now_ns < p->exited_ns + LIMIT_EXIT_GRACE_MS * 1000000ull) {
				link = &p->next;
				continue;
			}
			*link = p->next;
			const struct msg_number number = {.number = p->tgid};
			peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_PROCESS_GONE, &number,
				  sizeof(number), NULL, 0);
			if (p->slot)
				slot_write(p->slot, 0, NULL);
			list_put(manager, p->list);
			list_put(manager, p->previous);
			manager->processes.count--;
			free(p);
		}
	}
}
