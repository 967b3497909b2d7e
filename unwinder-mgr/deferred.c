/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see deferred.h. */
#include "unwinder-mgr/deferred.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/walker.h"

/* The protocol gives the size of a record without bpf/shared.h. */
_Static_assert(sizeof(struct bh_sample) == MSG_SAMPLE_BYTES_LEAST &&
		   sizeof(struct bh_sample_record) == MSG_SAMPLE_BYTES_MOST,
	       "DEFERRED_SAMPLE carries a struct bh_sample_record");

static bool record_valid(const struct bh_deferred *record, size_t length)
{
	return length >= offsetof(struct bh_deferred, stack) &&
	       record->copied <= BH_STACK_COPY_BYTES &&
	       length >= offsetof(struct bh_deferred, stack) + record->copied &&
	       record->header.kernel_count <= BH_KERNEL_FRAMES_MAX;
}

/* Counts a sample that is lost. The worker does not wait for it. */
static void deferred_lose(struct manager *manager, enum loss_reason reason)
{
	manager->losses.lost[reason]++;
	manager->processes.table->deferred_taken--;
}

/* Sends the sample to the worker, in the form that BPF gives it after a walk. */
static void deferred_send(struct manager *manager, const struct bh_deferred *deferred,
			  const uint64_t *frames, unsigned int count, unsigned int reason)
{
	struct bh_sample_record record = {.header = deferred->header};
	const size_t kernel = deferred->header.kernel_count;

	record.header.user_count = (uint16_t)count;
	record.header.reason = (uint8_t)reason;
	memcpy(record.frames, frames, count * sizeof(frames[0]));
	memcpy(record.frames + count, deferred->kernel_frames, kernel * sizeof(frames[0]));
	if (peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_DEFERRED_SAMPLE, &record,
		      sizeof(record.header) + (count + kernel) * sizeof(frames[0]), NULL, 0) < 0)
		deferred_lose(manager, LOSS_MANAGER_QUEUE);
}

/* Walks the stack by the mappings that the process had at the time of the sample. Returns how the
 * walk ended, an enum bh_reason. */
static unsigned int deferred_walk(struct manager *manager, const struct bh_deferred *record,
				  uint64_t *frames, unsigned int *count)
{
	struct walker_tables tables = {.modules = manager->modules.published,
				       .rules = manager->rules.table};
	const struct walker_stack stack = {
	    .start = record->stack_start, .bytes = record->stack, .length = record->copied};
	const struct mapping_list *list = processes_list_at(manager, &record->header);
	const struct work_subject subject = {.tgid = record->header.tgid,
					     .tenant = tenant_of(TENANT_UID_UNKNOWN, 0)};

	if (!list || work_is_quarantined(manager->role.work_page, &subject)) {
		frames[0] = bh_frame_raw(record->registers.rip);
		*count = 1;
		return list ? BH_REASON_REFUSED : BH_REASON_NO_PROCESS;
	}
	work_begin(manager->role.work_page, &subject);
	for (unsigned int i = 0; i < manager->slabs.count; i++)
		tables.slabs[i] = manager->slabs.slabs[i].data;
	const unsigned int reason =
	    walker_run(&tables, &record->registers, &stack, list->block.slab, list->block.offset,
		       (uint32_t)list->count, frames, count);
	work_end(manager->role.work_page);
	return reason;
}

/* Counts a stack that ends in a frame of a module without a table. */
static void deferred_await(struct manager *manager, uint64_t frame)
{
	struct module *module =
	    bh_frame_is_raw(frame)
		? NULL
		: modules_find(&manager->modules, (uint32_t)(frame >> BH_FRAME_OFFSET_BITS));

	if (module)
		module->awaited++;
}

/* Returns whether a walk ended because the mappings of the process were not known. */
static bool reason_is_mappings(unsigned int reason)
{
	return reason == BH_REASON_NO_PROCESS || reason == BH_REASON_NO_MAPPING;
}

/* Walks the stack and sends it, unless a later try may walk it further. Returns whether it was
 * sent. */
static bool deferred_try(struct manager *manager, const struct bh_deferred *record,
			 bool last_chance)
{
	uint64_t frames[BH_USER_FRAMES_MAX];
	unsigned int count = 0;
	unsigned int reason = deferred_walk(manager, record, frames, &count);

	/* The process may have started before the sideband was open, or its records may have been
	 * lost. The kernel side has seen the whole stack, and this one perhaps not. */
	if (reason_is_mappings(reason) ||
	    (reason == BH_REASON_COPY_SHORT && reason_is_mappings(record->header.reason)))
		processes_rescan(manager, record->header.tgid, clock_monotonic_ns());
	if (bh_reason_is_temporary(reason) && !last_chance) {
		if (reason == BH_REASON_NO_TABLE && count > 0)
			deferred_await(manager, frames[count - 1]);
		return false;
	}
	deferred_send(manager, record, frames, count, reason);
	return true;
}

static void deferred_enqueue(struct manager *manager, const struct bh_deferred *record,
			     size_t length)
{
	struct deferred *deferred = &manager->deferred;
	const struct process *process = processes_find(&manager->processes, record->header.tgid);
	/* Users who are not known yet count as one. */
	struct share *share = process && process->share ? process->share : &manager->shares.others;
	const size_t bytes = offsetof(struct deferred_stack, record) + length;
	const size_t room = LIMIT_DEFERRED_BYTES - deferred->bytes;
	struct deferred_stack *stack =
	    share_allows(share, SHARED_DEFERRED, bytes, room) ? malloc(bytes) : NULL;

	if (!stack) {
		deferred_try(manager, record, true);
		return;
	}
	stack->next = NULL;
	stack->share = share_ref(share);
	share_take(share, SHARED_DEFERRED, bytes);
	stack->since_ns = clock_monotonic_ns();
	stack->bytes = bytes;
	memcpy(&stack->record, record, length);
	if (deferred->last)
		deferred->last->next = stack;
	else
		deferred->first = stack;
	deferred->last = stack;
	deferred->bytes += bytes;
	deferred->count++;
}

void deferred_tell_count(struct manager *manager)
{
	const struct msg_deferred_count count = {
	    .stacks = manager->processes.table->deferred_taken - manager->deferred.count};

	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_DEFERRED_COUNT, &count, sizeof(count),
		  NULL, 0);
}

/* Returns whether there is no worker now. The stacks stay in the ring, or where they wait. */
static bool deferred_must_wait(const struct manager *manager)
{
	return manager->role.peers[ROLE_WORKER].fd < 0 && manager->role.state != ROLE_STOPPING;
}

void deferred_consume(struct manager *manager)
{
	const void *data;
	size_t length;

	if (manager->role.state == ROLE_STARTING || deferred_must_wait(manager))
		return;
	while (bpf_ring_peek(&manager->deferred.ring, &data, &length)) {
		const struct bh_deferred *record = data;

		if (!record_valid(record, length))
			deferred_lose(manager, LOSS_BAD_RECORD);
		else if (!deferred_try(manager, record, false))
			deferred_enqueue(manager, record, length);
		/* If it ends in between, a stack that was sent is missing here for a moment. In the
		 * other order, one that is sent again would be counted twice. */
		bpf_ring_next(&manager->deferred.ring);
		manager->processes.table->deferred_taken++;
	}
}

void deferred_process(struct manager *manager, bool finish)
{
	struct deferred *deferred = &manager->deferred;
	const uint64_t now = clock_monotonic_ns();
	const bool new_tables = deferred->tried_generation != manager->modules.generation;

	if (deferred_must_wait(manager))
		return;
	deferred->tried_generation = manager->modules.generation;
	deferred->last = NULL;
	for (struct deferred_stack **link = &deferred->first; *link;) {
		struct deferred_stack *stack = *link;
		const bool late = finish || now - stack->since_ns > LIMIT_DEFERRED_MS * NS_PER_MS;

		if ((!new_tables && !late) || !deferred_try(manager, &stack->record, late)) {
			deferred->last = stack;
			link = &stack->next;
			continue;
		}
		*link = stack->next;
		deferred->bytes -= stack->bytes;
		deferred->count--;
		share_give_back(stack->share, SHARED_DEFERRED, stack->bytes);
		share_unref(stack->share);
		free(stack);
	}
}
