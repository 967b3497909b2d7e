/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/stack_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/frames.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/worker.h"

enum {
	/* A BPF program that read the old generation has ended after this: it runs for some
	 * microseconds, with interrupts disabled. */
	RESET_DELAY_NS = 10 * NS_PER_MS,
	/* A BPF program reads the time of its record up to this long before the generation. */
	RECORD_TIME_SLACK_NS = NS_PER_MS,
	/* All stacks are sent again at most this often, because names have come: many processes may
	 * start at the same time. */
	SEND_AGAIN_NS = NS_PER_S,
};

struct retained_stack {
	struct retained_stack *next;
	struct bh_sample header;
	uint64_t frames[];
};

/* The kernel side refers to a stack for BH_DEDUP_EPOCHS epochs at most. One more is needed because
 * a period starts anywhere within an epoch. */
#define PERIOD_NS ((BH_DEDUP_EPOCHS + 1ull) << BH_DEDUP_EPOCH_BITS)

/* --- definition of a stack --- */

/* The ids of a stack's frames, and of its labels (0: none). A frame may stand for several
 * functions. */
struct frame_ids {
	uint32_t ids[LIMIT_STACK_FRAMES];
	uint32_t count;
	uint32_t labels;
};
_Static_assert((int)LIMIT_STACK_FRAMES > (int)BH_FRAMES_ROOM, "a record's frames and a reason fit");

/* Adds the ids of the functions at one address, the innermost first. They are left out if not all
 * of them fit: inlined functions may make a deep stack deeper. */
static void stack_add_ids(struct frame_ids *to, uint32_t ids)
{
	uint32_t count = frame_ids_count(ids);

	if (count > LIMIT_STACK_FRAMES - 1 - to->count)
		return;
	if (__builtin_expect(count == 1, true)) {
		to->ids[to->count++] = frame_ids_first(ids);
		return;
	}
	if (!count && ids)
		to->labels = frame_ids_first(ids);
	while (count-- > 0)
		to->ids[to->count++] = frame_ids_first(ids) + count;
}

/* Adds kernel frames or native ones. Callers are `less` bytes before what the frames have. */
static inline int stack_add_frames(struct worker *worker, const uint64_t *frames,
				   unsigned int frame_count, unsigned int less,
				   struct frame_ids *to)
{
	uint32_t ids;

	for (unsigned int i = 0; i < frame_count; i++) {
		const int r = frames_get_ids(worker, frames[i] - (i ? less : 0), &ids);

		if (r)
			return r;
		stack_add_ids(to, ids);
	}
	return 0;
}

/* Adds the frames of the kernel, which has the addresses to which calls return, and these may be in
 * the next function. (The walkers of user stacks have the address of the call itself.) */
static int stack_add_kernel(struct worker *worker, const struct bh_sample *header,
			    const uint64_t *frames, struct frame_ids *to)
{
	return stack_add_frames(worker, frames + header->user_count, header->kernel_count, 1, to);
}

/* Adds the user frames of a stack with managed frames. If native ones have to wait for their names,
 * the managed ones are named all the same: what has their names may soon be gone from memory. */
static int stack_add_managed(struct worker *worker, const struct bh_sample *header,
			     const uint64_t *frames, struct frame_ids *to)
{
	struct managed_process *process = runtimes_process(worker, header->tgid);
	bool waits = false;
	uint32_t ids;

	for (unsigned int i = 0; i < header->user_count; i += bh_frame_words(frames[i])) {
		const int r = bh_frame_is_managed(frames[i])
				  ? frames_get_managed_ids(worker, process, &frames[i], &ids)
				  : frames_get_ids(worker, frames[i], &ids);

		waits |= r == -EAGAIN;
		if (r && (r != -EAGAIN || worker->naming_paused))
			return r;
		if (!r)
			stack_add_ids(to, ids);
	}
	return waits ? -EAGAIN : 0;
}

/* Defines a stack, leaf first: kernel frames, user frames, and the reason as the outermost frame if
 * the user stack is incomplete. */
static int stack_define(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames, uint32_t id)
{
	struct frame_ids stack; /* large: only what is used is written */
	uint32_t reason;

	stack.count = 0;
	stack.labels = 0;
	const bool is_managed = header->flags & BH_SAMPLE_MANAGED;
	int r = stack_add_kernel(worker, header, frames, &stack);
	if (is_managed && (!r || r == -EAGAIN)) {
		const int user = stack_add_managed(worker, header, frames, &stack);

		r = user ? user : r;
	} else if (!r) {
		r = stack_add_frames(worker, frames, header->user_count, 0, &stack);
	}
	if (!r && header->reason != BH_REASON_COMPLETE) {
		r = frames_get_abort_ids(worker, header->reason, &reason);
		if (!r)
			stack.ids[stack.count++] = frame_ids_first(reason);
	}
	if (r < 0)
		return r;
	records_add_stack(worker->batch.records, &(struct record_stack){.id = id,
									.reason = header->reason,
									.frames = stack.ids,
									.count = stack.count,
									.labels = stack.labels});
	return 0;
}

/* Returns what the names of managed frames depend on: the program that the process runs, and
 * whether its memory can be read. */
static uint64_t names_generation(struct worker *worker, const struct bh_sample *header)
{
	return header->flags & BH_SAMPLE_MANAGED
		   ? runtimes_names_generation(runtimes_process(worker, header->tgid))
		   : 0;
}

/* Returns the key of a stack's contents. Two stacks may have the same words and differ in which of
 * them are kernel frames. */
static XXH128_hash_t stack_key(struct worker *worker, const struct bh_sample *header,
			       const uint64_t *frames)
{
	const size_t bytes =
	    ((size_t)header->user_count + header->kernel_count) * sizeof(frames[0]);
	XXH128_hash_t key = id_key_of_bytes(&worker->id_secret, frames, bytes);

	/* What else distinguishes stacks is added to the hash, which saves a second one. It makes
	 * the same words differ, and who cannot compute hashes cannot make others equal with it. */
	key.high64 ^= (uint64_t)header->user_count << 16 | header->reason;
	key.low64 ^= names_generation(worker, header);
	return key;
}

/* Finds the id of a stack that came with its frames. */
static int stack_get_id(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames, uint32_t *id)
{
	const bool has_maps = worker->jit_maps.count;
	XXH128_hash_t key = stack_key(worker, header, frames);

	if (has_maps)
		key.high64 ^= jit_maps_select(worker, header, frames) << 32;
	if (id_map_get(&worker->ids.stacks, key, id))
		return 0;
	/* Without any map, nothing depends on one yet. */
	if (!has_maps)
		jit_maps_select(worker, header, frames);
	worker->names_due = NAMES_FINAL;
	int r = stack_define(worker, header, frames, worker->ids.stack + 1);
	if (r < 0)
		return r;
	*id = ++worker->ids.stack;
	/* A stack that lacks names is defined again when its frames come again. */
	if (worker->names_due == NAMES_FINAL)
		return id_map_put(&worker->ids.stacks, key, *id);
	/* Otherwise the kernel side would refer to it for 17 s. */
	if (worker->names_due == NAMES_SOON)
		stack_ids_send_again(worker);
	return 0;
}

/* --- ids of the kernel side --- */

static XXH128_hash_t kernel_key(const struct bh_sample *header)
{
	return (XXH128_hash_t){.low64 = header->stack_id, .high64 = header->tgid};
}

/* Records which stack the kernel side means by its id. */
static int kernel_id_put(struct stack_ids *ids, const struct bh_sample *header, uint32_t id)
{
	uint32_t old;

	if (header->time_ns - ids->current_since_ns > PERIOD_NS &&
	    header->time_ns > ids->current_since_ns) {
		id_map_fini(&ids->previous);
		ids->previous = ids->current;
		ids->current = (struct id_map){0};
		ids->current_since_ns = header->time_ns;
	}
	/* Two CPUs may have sent the same stack at the same time. */
	if (id_map_get(&ids->current, kernel_key(header), &old))
		return 0;
	return id_map_put(&ids->current, kernel_key(header), id);
}

static bool kernel_id_get(const struct stack_ids *ids, const struct bh_sample *header, uint32_t *id)
{
	return id_map_get(&ids->current, kernel_key(header), id) ||
	       id_map_get(&ids->previous, kernel_key(header), id);
}

/* --- stacks between the request and the reset --- */

/* Keeps a stack that the kernel side may refer to after the reset. If there is no room or memory,
 * its later samples are lost and counted. */
static void retain(struct stack_ids *ids, const struct bh_sample *header, const uint64_t *frames)
{
	const size_t bytes =
	    ((size_t)header->user_count + header->kernel_count) * sizeof(frames[0]);

	if (!header->stack_id || header->time_ns + RECORD_TIME_SLACK_NS < ids->requested_ns ||
	    ids->retained_count == LIMIT_WORKER_RETAINED)
		return;
	struct retained_stack *stack = malloc(sizeof(*stack) + bytes);
	if (!stack)
		return;
	stack->header = *header;
	memcpy(stack->frames, frames, bytes);
	stack->next = ids->retained;
	ids->retained = stack;
	ids->retained_count++;
}

/* --- interface --- */

int stack_ids_get(struct worker *worker, const struct bh_sample *header, const uint64_t *frames,
		  uint32_t *id)
{
	if (sample_is_reference(header))
		return kernel_id_get(&worker->stack_ids, header, id) ? 0 : -ENOENT;
	int r = stack_get_id(worker, header, frames, id);
	if (r == -EAGAIN)
		return r;
	if (!r && header->stack_id)
		r = kernel_id_put(&worker->stack_ids, header, *id);
	if (worker->stack_ids.reset_at_ns)
		retain(&worker->stack_ids, header, frames);
	return r;
}

/* Frees the retained stacks, after defining them again if that is wanted. */
static void release_retained(struct worker *worker, bool define)
{
	struct stack_ids *ids = &worker->stack_ids;

	while (ids->retained) {
		struct retained_stack *stack = ids->retained;
		uint32_t id;

		/* Sending a batch may fail, which resets all ids and releases the rest. */
		ids->retained = stack->next;
		if (define)
			batch_reserve(&worker->batch);
		if (define && stack_ids_get(worker, &stack->header, stack->frames, &id) < 0)
			log_debug("cannot define a retained stack");
		free(stack);
	}
	ids->retained_count = 0;
}

/* Makes the kernel side send each stack with its frames again. */
static void next_generation(struct worker *worker)
{
	if (worker->control)
		__atomic_fetch_add(&worker->control->generation, 1, __ATOMIC_RELAXED);
}

void stack_ids_send_again(struct worker *worker)
{
	worker->stack_ids.send_again = true;
}

/* Tells the kernel side to refer to no stack that it sent until now. */
static void revoke_kernel_ids(struct worker *worker)
{
	worker->stack_ids.requested_ns = clock_monotonic_ns();
	next_generation(worker);
}

static void drop_ids(struct worker *worker)
{
	struct ids *ids = &worker->ids;

	id_map_fini(&worker->stack_ids.current);
	id_map_fini(&worker->stack_ids.previous);
	id_map_fini(&ids->modules);
	id_map_fini(&ids->functions);
	id_map_fini(&ids->frames);
	id_map_fini(&ids->stacks);
	id_map_fini(&ids->processes);
	id_map_fini(&ids->threads);
	*ids = (struct ids){0};
	identity_reset(worker);
	worker->batch.reset = true;
	worker->stack_ids.reset_at_ns = 0;
}

void stack_ids_begin(struct worker *worker)
{
	revoke_kernel_ids(worker);
}

void stack_ids_request_reset(struct worker *worker)
{
	if (worker->stack_ids.reset_at_ns)
		return;
	revoke_kernel_ids(worker);
	worker->stack_ids.reset_at_ns = worker->stack_ids.requested_ns + RESET_DELAY_NS;
}

void stack_ids_reset(struct worker *worker)
{
	worker->losses.lost[LOSS_EXPORTER_QUEUE] += batch_discard(&worker->batch);
	revoke_kernel_ids(worker);
	drop_ids(worker);
	release_retained(worker, false);
}

static bool too_many_ids(const struct ids *ids)
{
	return ids->frames.count > LIMIT_WORKER_FRAMES || ids->frame > LIMIT_WORKER_FRAME_IDS ||
	       ids->stacks.count > LIMIT_WORKER_STACKS || ids->threads.count > LIMIT_WORKER_STACKS;
}

void stack_ids_reset_when_due(struct worker *worker, uint64_t time_ns)
{
	struct stack_ids *ids = &worker->stack_ids;
	const uint64_t reset_at_ns = ids->reset_at_ns;

	ids->send_again |= worker->jit_maps.changed;
	worker->jit_maps.changed = false;
	if (ids->send_again && time_ns > ids->sent_again_ns + SEND_AGAIN_NS) {
		ids->send_again = false;
		ids->sent_again_ns = time_ns;
		next_generation(worker);
	}
	if (reset_at_ns && time_ns >= reset_at_ns) {
		/* A batch has either old ids or new ones. */
		batch_flush(&worker->batch);
		drop_ids(worker);
		release_retained(worker, true);
	} else if (too_many_ids(&worker->ids)) {
		stack_ids_request_reset(worker);
	}
}
