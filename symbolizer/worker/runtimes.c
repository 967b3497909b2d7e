/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/runtimes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/map_shared.h"
#include "common/runtimes.h"
#include "common/time_units.h"
#include "common/work_time.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/managed_processes.h"
#include "symbolizer/worker/memory_copies.h"
#include "symbolizer/worker/runtime_attachment.h"
#include "symbolizer/worker/runtime_images.h"
#include "symbolizer/worker/runtime_slots.h"
#include "symbolizer/worker/runtime_stats.h"
#include "symbolizer/worker/runtimes_private.h"
#include "symbolizer/worker/worker.h"

enum {
	/* How often the opener is asked again because a descriptor showed the memory of the
	 * previous program. Each of its answers may be outdated, if the process executes programs
	 * in quick succession. */
	MEMORY_LOSSES_MAX = 5,
	/* The pause before the opener is asked again after ENOBUFS (struct msg_memory). */
	MEMORY_PAUSE_MS = 20,
	/* How long a sample waits for the memory of a process that was just found. The opener
	 * needs 0.1 ms, unless the machine is overloaded. */
	MEMORY_HOLD_MS = 100,
	/* A tick attaches to processes for this long. It goes on with the others in the next tick,
	 * after messages and samples were handled. */
	TICK_MOST_NS = 5 * NS_PER_MS,
	/* The pause before it is asked again whether something is still left alone. */
	LEFT_ALONE_PAUSE_S = 1,
	/* The pause before it is asked again whether there is time to attach. */
	NO_TIME_PAUSE_MS = 100,
	/* A process that has used more than this waits while the ring is half full. */
	USED_WHILE_HALF_FULL_NS = 20 * NS_PER_MS,
	/* Samples may get lost if more than this part of the ring is full. */
	RING_PART = 8,
};

void runtimes_stats(const struct worker *worker, struct msg_runtime stats[RUNTIME_ID_COUNT])
{
	const struct runtimes *runtimes = worker->runtimes;

	if (!runtimes)
		return;
	memcpy(stats, runtimes->processes.stats.by_runtime,
	       sizeof(runtimes->processes.stats.by_runtime));
	for (struct managed_process *p = NULL;
	     (p = managed_processes_next(&runtimes->processes, p));) {
		for (unsigned int i = 0; i < p->count; i++)
			stats[p->attachments[i]->image->runtime].attached +=
			    p->attachments[i]->state == RUNTIME_ATTACHMENT_PUBLISHED;
	}
}

/* Has the loader load the program that walks the frames of the runtime. */
static void runtimes_request_program(struct worker *worker, unsigned int runtime)
{
	const struct msg_id request = {.id = runtime};

	worker->runtimes->requested |= 1u << runtime;
	peer_send(&worker->role.peers[ROLE_LOADER], MESSAGE_LOAD_RUNTIME, &request, sizeof(request),
		  NULL, 0);
}

void runtimes_request_again(struct worker *worker)
{
	for (unsigned int i = 0; worker->runtimes && worker->runtimes->requested >> i; i++) {
		if (worker->runtimes->requested >> i & 1)
			runtimes_request_program(worker, i);
	}
}

bool runtimes_know_image(const struct worker *worker, uint32_t module)
{
	return worker->runtimes &&
	       runtime_images_find(worker->runtimes->processes.images, module) != NULL;
}

void runtimes_on_recognised(struct worker *worker, uint32_t module, const struct recognised *found)
{
	struct runtimes *runtimes = worker->runtimes;
	const struct msg_id watch = {.id = module};

	if (found->error == -ENOTSUP)
		runtime_stats_refuse(&runtimes->processes.stats, found->runtime,
				     found->refusal.text);
	if (found->error)
		return;
	runtime_images_add(&runtimes->processes.images, module, found->image);
	runtimes->watches_asked += peer_send(&worker->role.peers[ROLE_MANAGER], MESSAGE_WATCH,
					     &watch, sizeof(watch), NULL, 0) == 0;
	if (!found->image->ops->only_names && !(runtimes->requested >> found->runtime & 1))
		runtimes_request_program(worker, found->runtime);
}

int runtimes_init(struct worker *worker, int table_fd, bool had_other_worker)
{
	struct runtimes *runtimes = calloc(1, sizeof(*runtimes));

	if (!runtimes)
		return -ENOMEM;
	void *table =
	    map_shared(table_fd, sizeof(struct bh_runtime_table), PROT_READ | PROT_WRITE, 0);
	if (!table) {
		free(runtimes);
		return -errno;
	}
	runtimes->processes.work = &worker->memory_work;
	runtimes->processes.slots.table = table;
	if (had_other_worker)
		runtime_slots_empty(&runtimes->processes.slots);
	runtimes->time = (struct time_share){.percent = LIMIT_RUNTIMES_TIME_PERCENT,
					     .most_ns = LIMIT_RUNTIMES_TIME_MS * NS_PER_MS};
	worker->runtimes = runtimes;
	return 0;
}

void runtimes_on_module_gone(struct worker *worker, const struct module *module)
{
	struct runtimes *runtimes = worker->runtimes;
	struct runtime_image *image =
	    runtimes ? runtime_images_find(runtimes->processes.images, module->id) : NULL;

	if (!image)
		return;
	image->module = 0;
	runtime_images_put(&runtimes->processes.images, image);
}

void runtimes_on_watched(struct worker *worker)
{
	if (worker->runtimes)
		worker->runtimes->watches_answered++;
}

/* Returns whether what the runtime needs of its process can be read. */
static bool attachment_may_try(const struct managed_process *process,
			       const struct runtime_attachment *attachment)
{
	return process->readable || attachment->image->ops->without_memory;
}

/* Returns whether it is known which runtimes of the process can be attached now. */
static bool process_is_settled(const struct managed_process *process)
{
	if (process->memory_asked || process->memory_due_ns)
		return false;
	for (unsigned int i = 0; i < process->count; i++) {
		const struct runtime_attachment *a = process->attachments[i];

		if (attachment_may_try(process, a) && !a->tried)
			return false;
	}
	return true;
}

unsigned int runtimes_unsettled(const struct worker *worker)
{
	const struct runtimes *runtimes = worker->runtimes;
	unsigned int count = 0;

	if (!runtimes)
		return 0;
	for (struct managed_process *p = NULL;
	     (p = managed_processes_next(&runtimes->processes, p));)
		count += !process_is_settled(p);
	/* The processes of a module that is watched are not known yet: at least one. */
	return count + (runtimes->watches_answered < runtimes->watches_asked);
}

struct managed_process *runtimes_process(struct worker *worker, uint32_t tgid)
{
	return worker->runtimes ? managed_processes_find(&worker->runtimes->processes, tgid) : NULL;
}

uint64_t runtimes_names_generation(const struct managed_process *process)
{
	return process ? (uint64_t)process->exec_generation << 1 | process->was_readable : 0;
}

uint64_t runtimes_code_generation(const struct managed_process *process)
{
	uint64_t generation = 0;

	for (unsigned int i = 0; process && i < process->count; i++) {
		const struct runtime_attachment *a = process->attachments[i];

		/* One is added for each, so that the first names differ from those before. */
		if (runtimes_give_names(a))
			generation += 1 + a->process.names_changed;
	}
	/* Without the bit it could be 0. */
	return generation ? hash_combine(hash_combine(0, process->exec_generation), generation) | 1
			  : 0;
}

bool runtimes_must_wait(struct worker *worker, uint32_t tgid)
{
	const struct managed_process *process = runtimes_process(worker, tgid);

	return process && !process->readable && (process->memory_asked || process->memory_due_ns) &&
	       clock_monotonic_ns() - process->since_ns < MEMORY_HOLD_MS * NS_PER_MS;
}

/* A descriptor of a program's memory reads nothing after that program has ended.
 * process_vm_readv(2), however, would read the memory of the program that runs under that pid
 * now. */
void runtimes_on_process(struct worker *worker, const struct msg_process *said)
{
	struct managed_process *process = runtimes_process(worker, said->tgid);

	if (process && process->memory.fd < 0 && process->exec_generation != said->exec_generation)
		process->readable = false;
}

void runtimes_on_process_gone(struct worker *worker, uint32_t tgid)
{
	if (worker->runtimes)
		managed_processes_delete(&worker->runtimes->processes, tgid);
}

void runtimes_free(struct worker *worker)
{
	struct runtimes *runtimes = worker->runtimes;

	if (!runtimes)
		return;
	managed_processes_fini(&runtimes->processes);
	while (runtimes->processes.images) {
		runtimes->processes.images->users = 1;
		runtime_images_put(&runtimes->processes.images, runtimes->processes.images);
	}
	munmap(runtimes->processes.slots.table, sizeof(struct bh_runtime_table));
	free(runtimes);
	worker->runtimes = NULL;
}

/* Adds a mapping of the file to the runtime's attachment, which is made with the first one. */
static void attachment_add(struct runtimes *runtimes, struct managed_process *process,
			   struct runtime_image *image, const struct runtime_mapping *mapping)
{
	struct runtime_attachment *a = managed_process_attachment(process, image, mapping->bias);

	if (!a)
		return;
	const bool is_new = !a->process.mapping_count;
	runtime_attachment_add_mapping(a, mapping);
	if (is_new && runtime_attachment_expect(a))
		managed_processes_publish(&runtimes->processes, process);
}

/* Asks the opener. With --strict-memory there is nothing to ask for. */
static void process_ask_memory(struct worker *worker, struct managed_process *process)
{
	const struct msg_open_memory request = {.tgid = process->tgid,
						.exec_generation = process->exec_generation};

	if (process->readable || process->memory_asked)
		return;
	process->memory_due_ns = 0;
	process->memory_asked = peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_MEMORY,
					  &request, sizeof(request), NULL, 0) == 0;
}

void runtimes_ask_again(struct worker *worker)
{
	struct runtimes *runtimes = worker->runtimes;

	for (struct managed_process *p = NULL;
	     runtimes && (p = managed_processes_next(&runtimes->processes, p));) {
		if (p->memory_asked)
			p->memory_asked = false;
		else if (!p->memory_due_ns)
			continue;
		process_ask_memory(worker, p);
	}
}

/* Closes a descriptor that was opened during an exec, and therefore shows the memory of the
 * previous program. Asks for another one. */
static void process_lose_memory(struct worker *worker, struct managed_process *process)
{
	managed_process_close_memory(process);
	process->readable = false;
	/* With --strict-memory there is nothing that could be opened again. */
	if (!worker->role.strict_memory && process->memory_lost++ < MEMORY_LOSSES_MAX)
		process_ask_memory(worker, process);
}

/* Counts refusals because the memory cannot be read, unless the process has just ended. */
static void process_refuse(struct runtimes *runtimes, const struct managed_process *process,
			   int error)
{
	for (unsigned int i = 0; i < process->count && error != ENOENT && error != ESRCH; i++)
		runtime_stats_refuse(&runtimes->processes.stats,
				     (unsigned int)process->attachments[i]->image->runtime, NULL);
}

struct work_subject runtimes_subject(const struct managed_process *process)
{
	return (struct work_subject){.tgid = process->tgid, .tenant = process->tenant->tenant};
}

/* --- the time for reading memory --- */

bool runtimes_may_begin(struct worker *worker, struct managed_process *process, uint64_t needed_ns,
			uint64_t now)
{
	struct runtimes *runtimes = worker->runtimes;

	if (time_part_may_begin(&process->time, &runtimes->time, needed_ns, now) &&
	    time_group_may_begin(&process->tenant->time, &runtimes->time, now) &&
	    (process->time.used_ns <= USED_WHILE_HALF_FULL_NS || !worker_is_behind(worker)))
		return true;
	/* If nothing is left, that may be due to others. */
	if (runtimes->time.left_ns > 0)
		runtime_stats_no_time(&runtimes->processes.stats, process->tgid, now);
	return false;
}

/* While samples wait, all the time counts that has passed; otherwise only that of the work itself,
 * so that nobody lacks names because the machine is loaded. */
void runtimes_spend(struct worker *worker, struct managed_process *process,
		    const struct work_time *begin)
{
	uint64_t passed_ns, own_ns;

	work_time_end(begin, &passed_ns, &own_ns);
	if (bpf_ring_waiting_bytes(&worker->ring) < worker->ring.bytes / RING_PART)
		passed_ns = own_ns;
	time_part_spend(&process->time, &worker->runtimes->time, passed_ns, own_ns);
	time_group_spend(&process->tenant->time, own_ns);
}

/* --- attaching --- */

/* Attaches, if there is time for that. */
static enum runtime_attachment_result process_try(struct worker *worker,
						  struct managed_process *process,
						  struct runtime_attachment *a, uint64_t now)
{
	struct runtimes *runtimes = worker->runtimes;

	if (!runtimes_may_begin(worker, process, runtime_attachment_needed_ns(a),
				clock_monotonic_ns())) {
		a->due_ns = now + NO_TIME_PAUSE_MS * NS_PER_MS;
		return RUNTIME_ATTACHMENT_UNCHANGED;
	}
	const struct work_subject subject = runtimes_subject(process);
	/* Frames in its code may have been described before there were names. */
	const uint64_t generation = runtimes_code_generation(process);
	const struct work_time begin = work_time_begin();
	work_begin(worker->role.work_page, &subject);
	const enum runtime_attachment_result result = runtime_attachment_try(
	    a, &worker->memory_work, &runtimes->processes.stats, process->since_ns, now);

	work_end(worker->role.work_page);
	worker->jit_maps.changed |=
	    runtimes_code_generation(process) != generation && worker->jit_maps.count > 0;
	managed_processes_count_cache(&runtimes->processes, a);
	runtimes_spend(worker, process, &begin);
	return result;
}

/* Attaches and refreshes where that is due. Returns when the next attach is due, or UINT64_MAX. */
static uint64_t process_tick(struct worker *worker, struct managed_process *process, uint64_t now)
{
	struct runtimes *runtimes = worker->runtimes;
	const struct work_subject subject = runtimes_subject(process);
	uint64_t next = UINT64_MAX;
	bool changed = false, memory_gone = false;

	if (process->memory_due_ns && process->memory_due_ns <= now)
		process_ask_memory(worker, process);
	if (!process->readable && process->memory_due_ns)
		next = process->memory_due_ns;
	if (work_is_quarantined(worker->role.work_page, &subject))
		return now + LEFT_ALONE_PAUSE_S * NS_PER_S;
	for (unsigned int i = 0; i < process->count; i++) {
		struct runtime_attachment *a = process->attachments[i];

		if (!attachment_may_try(process, a))
			continue;
		if (a->due_ns && a->due_ns <= now) {
			const enum runtime_attachment_result result =
			    process_try(worker, process, a, now);

			changed |= result == RUNTIME_ATTACHMENT_CHANGED;
			memory_gone |= result == RUNTIME_ATTACHMENT_MEMORY_GONE;
		}
		/* A refresh waits for a tick that comes for another reason. */
		if (a->due_ns && a->due_ns < next && a->state != RUNTIME_ATTACHMENT_PUBLISHED)
			next = a->due_ns;
	}
	if (changed)
		managed_processes_publish(&runtimes->processes, process);
	if (memory_gone) {
		process_lose_memory(worker, process);
		return UINT64_MAX;
	}
	return next;
}

/* Has the next tick come when something of a process is due. */
static void tick_at(struct worker *worker, uint64_t at_ns, uint64_t now)
{
	if (at_ns != UINT64_MAX)
		loop_tick_within(&worker->role.loop,
				 at_ns > now ? (int)ns_to_ms_round_up(at_ns - now) : 1);
}

void runtimes_tick(struct worker *worker)
{
	const uint64_t now = clock_monotonic_ns();
	struct runtimes *runtimes = worker->runtimes;
	uint64_t next = UINT64_MAX;

	if (!runtimes)
		return;
	process_work_look(&worker->memory_work);
	struct managed_process *process =
	    managed_processes_find(&runtimes->processes, runtimes->tick_from);
	/* Those before were handled by the last tick, but when they are due next is not known. */
	if (process)
		next = now;
	else
		process = managed_processes_next(&runtimes->processes, NULL);
	while (process && clock_monotonic_ns() - now <= TICK_MOST_NS) {
		const uint64_t at = process_tick(worker, process, now);

		next = at < next ? at : next;
		process = managed_processes_next(&runtimes->processes, process);
	}
	runtimes->tick_from = process ? process->tgid : 0;
	tick_at(worker, process ? now : next, now);
}

/* Attaches what can be attached. */
static void process_begin(struct worker *worker, struct managed_process *process)
{
	const uint64_t now = clock_monotonic_ns();

	tick_at(worker, process_tick(worker, process, now), now);
}

/* The same, for a process whose memory can be read from now on. */
static void process_begin_reading(struct worker *worker, struct managed_process *process)
{
	process->readable = process->was_readable = true;
	process_begin(worker, process);
}

void runtimes_on_mapped(struct worker *worker, const struct msg_mapped *mapped)
{
	struct runtimes *runtimes = worker->runtimes;
	struct runtime_image *image =
	    runtimes ? runtime_images_find(runtimes->processes.images, mapped->module) : NULL;
	struct runtime_mapping mapping = {.start = mapped->start, .end = mapped->end};

	if (!image || !runtime_image_bias(image, mapped->start, mapped->file_offset, &mapping.bias))
		return;
	struct managed_process *process = managed_processes_ensure(&runtimes->processes, mapped);
	if (!process) {
		runtime_stats_no_room(&runtimes->processes.stats, (unsigned int)image->runtime);
		return;
	}
	attachment_add(runtimes, process, image, &mapping);
	if (image->ops->without_memory)
		process_begin(worker, process);
	else if (!process->readable && worker->role.strict_memory)
		process_begin_reading(worker, process);
	else if (!process->readable)
		process_ask_memory(worker, process);
	/* A further mapping of a runtime that is attached already. */
	if (process->readable)
		loop_tick_within(&worker->role.loop, 1);
}

void runtimes_on_code_memory(struct worker *worker, const struct msg_code_memory *memory)
{
	struct managed_process *process = runtimes_process(worker, memory->tgid);

	if (process && managed_process_set_code_memory(process, memory) && process->readable)
		loop_tick_within(&worker->role.loop, 1);
}

bool runtimes_on_memory(struct worker *worker, struct message *message)
{
	struct msg_memory answer;

	memcpy(&answer, message->payload, sizeof(answer));
	struct managed_process *process = runtimes_process(worker, answer.tgid);
	if (!process || !process->memory_asked ||
	    process->exec_generation != answer.exec_generation)
		return false;
	process->memory_asked = false;
	if (!message->fd_count && answer.error == ENOBUFS) {
		process->memory_due_ns = clock_monotonic_ns() + MEMORY_PAUSE_MS * NS_PER_MS;
		loop_tick_within(&worker->role.loop, MEMORY_PAUSE_MS);
		return false;
	}
	if (!message->fd_count) {
		process_refuse(worker->runtimes, process, (int)answer.error);
		log_debug("no memory: tgid=%u error=%s", answer.tgid, strerror((int)answer.error));
		return false;
	}
	managed_process_take_memory(process, message);
	const bool named_too_early = process->named_too_early;
	process->named_too_early = false;
	process_begin_reading(worker, process);
	return named_too_early;
}

void runtimes_on_sample(struct worker *worker, const struct bh_sample *header)
{
	struct runtimes *runtimes = worker->runtimes;

	/* Only the samples of a process that is out of the table may lack the flag. */
	if (runtimes && (header->flags & BH_SAMPLE_MANAGED || runtimes->processes.out_of_table))
		managed_processes_sampled(&runtimes->processes, header->tgid, header->time_ns);
}

void runtimes_on_copy(struct worker *worker, const void *record, size_t length)
{
	if (worker->runtimes)
		memory_copies_add(&worker->runtimes->copies, record, length);
}
