/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see managed_processes.h. */
#include "symbolizer/worker/managed_processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"

enum {
	/* A process that was sampled within this time keeps its place. One that found no room
	 * tries again after it. */
	KEEP_MS = 1000,
	/* How many processes leave the table for another one, which may need several ranges next to
	 * each other. */
	EVICTIONS_MAX = 8,
};

_Static_assert(LIMIT_RUNTIME_PROCESSES < RUNTIME_SLOTS / 2, "searches in the table are short");
_Static_assert((int)RUNTIME_CODE_AREAS_MAX == (int)MSG_CODE_AREAS_MAX &&
		   (int)RUNTIME_CODE_LABEL_BYTES == (int)MSG_CODE_LABEL_BYTES,
	       "runtimes get all that the manager reports");

static struct managed_process **process_link(struct managed_processes *processes, uint32_t tgid)
{
	struct managed_process **link = &processes->buckets[tgid % MANAGED_PROCESS_BUCKETS];

	while (*link && (*link)->tgid != tgid)
		link = &(*link)->next;
	return link;
}

struct managed_process *managed_processes_find(const struct managed_processes *processes,
					       uint32_t tgid)
{
	struct managed_process *process = processes->buckets[tgid % MANAGED_PROCESS_BUCKETS];

	while (process && process->tgid != tgid)
		process = process->next;
	return process;
}

struct managed_process *managed_processes_next(const struct managed_processes *processes,
					       const struct managed_process *process)
{
	if (process && process->next)
		return process->next;
	for (uint32_t i = process ? process->tgid % MANAGED_PROCESS_BUCKETS + 1 : 0;
	     i < MANAGED_PROCESS_BUCKETS; i++) {
		if (processes->buckets[i])
			return processes->buckets[i];
	}
	return NULL;
}

/* --- the table --- */

static void set_out_of_table(struct managed_processes *processes, struct managed_process *process,
			     bool out)
{
	processes->out_of_table += out;
	processes->out_of_table -= process->out_of_table;
	process->out_of_table = out;
}

/* Takes the process out of the table, with its blocks. */
static void withdraw(struct managed_processes *processes, struct managed_process *process)
{
	runtime_slots_remove(&processes->slots, process->tgid);
	for (unsigned int i = 0; i < process->count; i++)
		runtime_attachment_give_block(process->attachments[i], &processes->slots);
	process->in_table = false;
}

/* Counts and logs that the process should be in the table, and is not. */
static void report_no_room(struct managed_processes *processes, struct managed_process *process)
{
	for (unsigned int i = 0; i < process->count; i++) {
		if (runtime_attachment_has_ranges(process->attachments[i]))
			runtime_stats_no_room(
			    &processes->stats,
			    (unsigned int)process->attachments[i]->image->runtime);
	}
	log_debug("not in the table of runtimes: tgid=%u", process->tgid);
}

/* Takes the process out of the table that was sampled least recently. Returns false if all others
 * were sampled a moment ago. */
static bool evict(struct managed_processes *processes, const struct managed_process *for_process)
{
	const uint64_t now = clock_monotonic_ns();
	struct managed_process *least = NULL;

	for (struct managed_process *p = NULL; (p = managed_processes_next(processes, p));) {
		if (p->in_table && p != for_process &&
		    (!least || p->sampled_ns < least->sampled_ns))
			least = p;
	}
	if (!least || least->sampled_ns + KEEP_MS * NS_PER_MS > now)
		return false;
	withdraw(processes, least);
	set_out_of_table(processes, least, true);
	report_no_room(processes, least);
	return true;
}

static void fill_blocks(void *context, struct bh_runtime_table *table)
{
	const struct managed_process *process = context;

	for (unsigned int i = 0; i < process->count; i++) {
		const struct runtime_attachment *a = process->attachments[i];

		if (runtime_attachment_has_ranges(a))
			table->blocks[a->block] = a->process.layout.block;
	}
}

/* Appends the ranges of an attachment to processes->ranges. Further ones are left out if a process
 * has more than the table allows. */
static size_t add_ranges(struct managed_processes *processes, const struct runtime_attachment *a,
			 size_t count)
{
	const struct runtime_layout *layout = &a->process.layout;

	for (unsigned int i = 0; i < layout->range_count && i < RUNTIME_RANGES_MAX &&
				 count < RUNTIME_PROCESS_RANGES_MAX;
	     i++) {
		const struct runtime_range *from = &layout->ranges[i];

		processes->ranges[count++] =
		    (struct runtime_slot_range){.range = {.start = from->start,
							  .end = from->end,
							  .runtime = (uint16_t)a->image->runtime,
							  .block = (uint16_t)a->block,
							  .data = from->data},
						.in_file = from->in_file};
	}
	return count;
}

/* Writes the process into the table if there is room. Returns the number of its ranges or
 * -ENOSPC. */
static int try_to_publish(struct managed_processes *processes, struct managed_process *process)
{
	size_t count = 0;

	for (unsigned int i = 0; i < process->count; i++) {
		struct runtime_attachment *a = process->attachments[i];

		if (!runtime_attachment_has_ranges(a))
			continue;
		if (!runtime_attachment_take_block(a, &processes->slots))
			return -ENOSPC;
		count = add_ranges(processes, a, count);
	}
	int r = runtime_slots_publish(&processes->slots, process->tgid, processes->ranges, count,
				      fill_blocks, process);
	return r < 0 ? r : (int)count;
}

void managed_processes_publish(struct managed_processes *processes, struct managed_process *process)
{
	int r = try_to_publish(processes, process);

	process->tried_ns = clock_monotonic_ns();
	for (int i = 0; r == -ENOSPC && i < EVICTIONS_MAX && evict(processes, process); i++)
		r = try_to_publish(processes, process);
	if (r > 0)
		process->in_table = true;
	else
		withdraw(processes, process);
	for (unsigned int i = 0; i < process->count; i++) {
		if (!runtime_attachment_has_ranges(process->attachments[i]))
			runtime_attachment_give_block(process->attachments[i], &processes->slots);
	}
	if (r < 0 && !process->out_of_table)
		report_no_room(processes, process);
	set_out_of_table(processes, process, r < 0);
}

void managed_processes_sampled(struct managed_processes *processes, uint32_t tgid, uint64_t time_ns)
{
	struct managed_process *process = managed_processes_find(processes, tgid);

	if (!process)
		return;
	if (time_ns > process->sampled_ns)
		process->sampled_ns = time_ns;
	if (process->out_of_table &&
	    clock_monotonic_ns() - process->tried_ns >= KEEP_MS * NS_PER_MS)
		managed_processes_publish(processes, process);
}

/* --- processes --- */

static ssize_t read_watched(void *work, const struct memory *memory, uint64_t address, void *buffer,
			    size_t length)
{
	return process_work_read(work, memory->fd, memory->pid, address, buffer, length);
}

void managed_process_take_memory(struct managed_process *process, struct message *message)
{
	process->memory.fd = TAKE_FD(message->fds[0]);
}

void managed_process_close_memory(struct managed_process *process)
{
	if (process->memory.fd >= 0)
		close(process->memory.fd);
	process->memory.fd = -1;
}

/* Detaches from everything in a process and closes its memory. */
static void process_empty(struct managed_processes *processes, struct managed_process *process)
{
	withdraw(processes, process);
	set_out_of_table(processes, process, false);
	for (unsigned int i = 0; i < process->count; i++) {
		processes->cached_bytes -= process->attachments[i]->counted;
		runtime_attachment_free(process->attachments[i], &processes->images);
	}
	managed_process_close_memory(process);
	process->memory_asked = process->readable = process->was_readable = false;
	process->named_too_early = false;
	process->memory_lost = 0;
	process->memory_due_ns = 0;
	process->count = 0;
	free(process->code_memory);
	process->code_memory = NULL;
}

static void process_delete(struct managed_processes *processes, struct managed_process **link)
{
	struct managed_process *process = *link;

	process_empty(processes, process);
	*link = process->next;
	processes->count--;
	managed_tenant_leave(process->tenant);
	free(process);
}

void managed_processes_delete(struct managed_processes *processes, uint32_t tgid)
{
	struct managed_process **link = process_link(processes, tgid);

	if (*link)
		process_delete(processes, link);
}

void managed_processes_fini(struct managed_processes *processes)
{
	for (int i = 0; i < MANAGED_PROCESS_BUCKETS; i++) {
		while (processes->buckets[i])
			process_delete(processes, &processes->buckets[i]);
	}
	managed_tenants_fini(&processes->tenants);
}

/* Lets a process of the tenant that has most of them give way to one of `tenant`. Returns whether
 * there is room then. */
static bool make_room(struct managed_processes *processes, const struct managed_tenant *tenant)
{
	const struct managed_tenant *largest = managed_tenants_largest(&processes->tenants);
	struct managed_process *least = NULL;

	/* The new process counts already. */
	if (largest == tenant || largest->processes <= tenant->processes)
		return false;
	for (struct managed_process *p = NULL; (p = managed_processes_next(processes, p));) {
		if (p->tenant == largest && (!least || p->sampled_ns < least->sampled_ns))
			least = p;
	}
	report_no_room(processes, least);
	managed_processes_delete(processes, least->tgid);
	return true;
}

static struct managed_process *process_new(struct managed_processes *processes,
					   const struct msg_mapped *mapped)
{
	struct managed_tenant *tenant = managed_tenants_join(&processes->tenants, mapped->tenant);

	if (!tenant)
		return NULL;
	struct managed_process *process =
	    processes->count < LIMIT_RUNTIME_PROCESSES || make_room(processes, tenant)
		? calloc(1, sizeof(*process))
		: NULL;
	if (!process) {
		managed_tenant_leave(tenant);
		return NULL;
	}
	process->tenant = tenant;
	process->tgid = mapped->tgid;
	process->memory = (struct memory){.fd = -1,
					  .pid = (pid_t)mapped->tgid,
					  .read = read_watched,
					  .read_context = processes->work};
	processes->count++;
	return process;
}

/* Lets a process belong to this tenant. Without memory it stays where it is. */
static void process_move(struct managed_processes *processes, struct managed_process *process,
			 struct tenant to)
{
	struct managed_tenant *tenant = tenant_is(process->tenant->tenant, to)
					    ? NULL
					    : managed_tenants_join(&processes->tenants, to);

	if (!tenant)
		return;
	managed_tenant_leave(process->tenant);
	process->tenant = tenant;
}

struct managed_process *managed_processes_ensure(struct managed_processes *processes,
						 const struct msg_mapped *mapped)
{
	struct managed_process *process = managed_processes_find(processes, mapped->tgid);

	/* The manager may have taken it for one of its parent's tenant at first. */
	if (process)
		process_move(processes, process, mapped->tenant);
	if (process && process->exec_generation == mapped->exec_generation)
		return process;
	if (process) {
		/* The process has executed another program. */
		process_empty(processes, process);
	} else {
		process = process_new(processes, mapped);
		if (!process)
			return NULL;
		*process_link(processes, mapped->tgid) = process;
	}
	process->exec_generation = mapped->exec_generation;
	process->since_ns = process->sampled_ns = clock_monotonic_ns();
	process->tried_ns = 0;
	return process;
}

struct runtime_attachment *managed_process_attachment(struct managed_process *process,
						      struct runtime_image *image, uint64_t bias)
{
	for (unsigned int i = 0; i < process->count; i++) {
		if (process->attachments[i]->image == image)
			return process->attachments[i];
	}
	if (process->count == MANAGED_PROCESS_RUNTIMES_MAX)
		return NULL;
	struct runtime_attachment *a =
	    runtime_attachment_new(image, bias, process->tgid, &process->memory);
	if (a) {
		a->process.code_memory = process->code_memory;
		process->attachments[process->count++] = a;
	}
	return a;
}

/* Copies the areas of a message, up to the first one that is not above those before it. */
static void copy_areas(struct runtime_code_memory *to, const struct msg_code_memory *from)
{
	uint64_t end = 0;

	to->count = 0;
	for (uint32_t i = 0; i < from->count && i < RUNTIME_CODE_AREAS_MAX; i++) {
		const struct msg_code_area *area = &from->areas[i];
		struct runtime_code_area *added = &to->areas[to->count];

		if (area->start < end || area->start >= area->end)
			return;
		end = area->end;
		*added = (struct runtime_code_area){.start = area->start, .end = area->end};
		memcpy(added->label, area->label, strnlen(area->label, sizeof(added->label) - 1));
		to->count++;
	}
}

bool managed_process_set_code_memory(struct managed_process *process,
				     const struct msg_code_memory *message)
{
	bool due = false;

	if (process->exec_generation != message->exec_generation)
		return false;
	if (!process->code_memory)
		process->code_memory = calloc(1, sizeof(*process->code_memory));
	if (!process->code_memory)
		return false;
	copy_areas(process->code_memory, message);
	for (unsigned int i = 0; i < process->count; i++) {
		struct runtime_attachment *a = process->attachments[i];

		a->process.code_memory = process->code_memory;
		due |= runtime_attachment_code_changed(a);
	}
	return due;
}

static void count_cache(struct managed_processes *processes, struct runtime_attachment *a)
{
	processes->cached_bytes -= a->counted;
	a->counted = a->process.cached_bytes;
	processes->cached_bytes += a->counted;
}

static struct runtime_attachment *least_used(const struct managed_processes *processes)
{
	struct runtime_attachment *least = NULL;

	for (struct managed_process *p = NULL; (p = managed_processes_next(processes, p));) {
		for (unsigned int i = 0; i < p->count; i++) {
			struct runtime_attachment *a = p->attachments[i];

			if (a->counted && (!least || a->used < least->used))
				least = a;
		}
	}
	return least;
}

void managed_processes_count_cache(struct managed_processes *processes,
				   struct runtime_attachment *attachment)
{
	count_cache(processes, attachment);
	while (processes->cached_bytes > LIMIT_RUNTIME_CACHE_BYTES) {
		struct runtime_attachment *least = least_used(processes);

		if (!least)
			return;
		least->process.ops->drop_cache(&least->process);
		count_cache(processes, least);
	}
}
