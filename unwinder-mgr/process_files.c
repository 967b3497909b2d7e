/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/process_files.h"

#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_state.h"
#include "unwinder-mgr/process_reports.h"

enum {
	SEARCHES_MAX = 8, /* in one tick, for processes that map a module */
};

/* Lets the mappings of `module` belong to `other`, which has the same file. */
static void processes_replace_module(struct manager *manager, struct module *module,
				     struct module *other)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			struct mapping_list *list = mapping_list_has(p->list, module)
							? processes_own_list(manager, p)
							: NULL;

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
	struct mapping_list *list = processes_own_list(manager, process);

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

void process_files_on_answer(struct manager *manager, const struct msg_file *answer, int fd)
{
	const struct module *module = modules_find(&manager->modules, answer->cookie);
	const struct tenant tenant =
	    processes_tenant(manager, module ? module->requested_for : 0, answer->uid);
	const struct modules_answer result = modules_on_file(manager, answer, tenant, fd);
	struct process *process =
	    result.requested_for ? processes_find(&manager->processes, result.requested_for) : NULL;

	if (process) {
		process->requests -= process->requests > 0;
		processes_set_tenant(manager, process->tgid, tenant);
	}
	if (result.unshared)
		processes_unshare_module(manager, result.module);
	if (result.duplicate)
		processes_replace_module(manager, result.module, result.duplicate);
}

static bool list_has_new_memory(struct mapping_list *list)
{
	mapping_list_merge(list);
	for (size_t i = 0; list && i < list->count; i++) {
		if (list->mappings[i].module && list->mappings[i].module->memory_is_new)
			return true;
	}
	return false;
}

void process_files_publish_memory(struct manager *manager)
{
	struct modules *modules = &manager->modules;

	if (!modules->any_memory_is_new)
		return;
	modules->any_memory_is_new = false;
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			if (!list_has_new_memory(p->list))
				continue;
			mapping_list_withdraw(p->list, &manager->slabs);
			process_mark_dirty(&manager->processes, p);
		}
	}
	for (struct module *m = modules->all; m; m = m->next)
		m->memory_is_new = false;
}

/* Returns the running process that has mapped the module for longest, by its exec generation, of
 * those that were not tried yet; NULL if there is none. */
static struct process *process_oldest_with(struct processes *processes, const struct module *module)
{
	struct process *oldest = NULL;

	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = processes->buckets[i]; p; p = p->next) {
			if (!p->exited_ns && p->tgid != module->requested_for &&
			    p->exec_generation > module->tried_exec &&
			    (!oldest || p->exec_generation < oldest->exec_generation) &&
			    mapping_list_has(p->list, module))
				oldest = p;
		}
	}
	return oldest;
}

/* Has the opener asked for a module that this process maps. */
static void process_request_module(struct manager *manager, struct process *process,
				   struct module *module)
{
	for (size_t i = 0; i < process->list->count; i++) {
		const struct mapping *m = &process->list->mappings[i];

		if (m->module == module) {
			module_request(manager, module, process, m->start, m->end);
			break;
		}
	}
}

void process_files_request_elsewhere(struct manager *manager)
{
	struct modules *modules = &manager->modules;
	const bool is_scan_due = manager->scanning || manager->scan_wanted;
	unsigned int searched = 0;

	if (!modules->any_wanted_elsewhere)
		return;
	modules->any_wanted_elsewhere = false;
	for (struct module *m = modules->all; m; m = m->next) {
		if (!m->wanted_elsewhere)
			continue;
		if (!m->users) {
			module_give_up_file(manager, m);
			continue;
		}
		/* A search visits all processes. The others are searched for in the next tick. */
		if (searched++ == SEARCHES_MAX) {
			modules->any_wanted_elsewhere = true;
			return;
		}
		struct process *process = process_oldest_with(&manager->processes, m);
		if (process) {
			m->tries_left--;
			m->tried_exec = process->exec_generation;
			process_request_module(manager, process, m);
		} else if (is_scan_due) {
			modules->any_wanted_elsewhere = true;
		} else {
			module_give_up_file(manager, m);
		}
	}
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

void process_files_request_missing(struct manager *manager, uint64_t now_ns)
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
