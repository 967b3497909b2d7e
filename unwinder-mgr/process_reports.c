/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/process_reports.h"

#include <errno.h>
#include <string.h>

#include "unwinder-mgr/code_memory.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/memory_permits.h"

void process_mark_dirty(struct processes *processes, struct process *process)
{
	if (process->dirty)
		return;
	process->dirty = true;
	process->next_dirty = processes->dirty;
	processes->dirty = process;
}

/* Tells the worker which program a process executes: the first module of its list that is a
 * file. */
static void process_announce(struct manager *manager, struct process *process)
{
	struct msg_process message = {.tgid = process->tgid,
				      .exec_generation = process->exec_generation,
				      .container = share_tenant(process->share).container};

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

/* Reports to the worker where a process maps the modules that the worker watches, or only `only`
 * unless that is NULL, and its other executable memory. Returns 0, or -EAGAIN if that has to wait
 * for the opener: a process is only reported when its memory is allowed, so the worker's request
 * cannot be refused. */
static int process_report_watched(struct manager *manager, struct process *process,
				  const struct module *only)
{
	const struct mapping_list *list = process->list;
	unsigned int reported = 0;
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
						   .tenant = share_tenant(process->share),
						   .start = m->start,
						   .end = m->end,
						   .file_offset = m->file_offset};
		peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MAPPED, &message,
			  sizeof(message), NULL, 0);
		reported++;
	}
	return reported ? code_memory_report(manager, process, reported) : 0;
}

void processes_watch(struct manager *manager, struct module *module, enum runtime_access access)
{
	if (module->watched)
		return;
	module->watched = access;
	manager->modules.watched++;
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager->processes.buckets[i]; p; p = p->next) {
			if (!p->exited_ns && process_report_watched(manager, p, module) < 0)
				process_mark_dirty(&manager->processes, p);
		}
	}
}

int process_report(struct manager *manager, struct process *process)
{
	if (!process->announced && process->list && process->list->count)
		process_announce(manager, process);
	return process->exited_ns ? 0 : process_report_watched(manager, process, NULL);
}

void processes_tell_worker(struct processes *processes)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = processes->buckets[i]; p; p = p->next) {
			p->announced = false;
			p->code_memory_sent = 0;
			process_mark_dirty(processes, p);
		}
	}
}

void processes_ask_again(struct processes *processes)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = processes->buckets[i]; p; p = p->next) {
			p->requests = 0;
			p->allowed = (struct msg_allow_memory){0};
			process_mark_dirty(processes, p);
		}
	}
}
