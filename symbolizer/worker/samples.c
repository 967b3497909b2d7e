/* SPDX-License-Identifier: Apache-2.0 */
/* From a record of the ring to a sample by numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/worker.h"

enum {
	/* What runs in the kernel at the time of a change is over after this. */
	FORGET_AFTER_NS = 10000000,
	/* A record's time is read a moment before the kernel side looks whether it was told. */
	REVOKED_BEFORE_NS = 1000000,
};

struct carried_stack {
	struct carried_stack *next;
	struct bh_sample header;
	uint64_t frames[];
};

/* One epoch more, as it begins between two. */
#define KNOWN_PERIOD_NS ((BH_DEDUP_EPOCHS + 1ull) << BH_DEDUP_EPOCH_BITS)

bool samples_valid(const void *record, size_t length)
{
	const struct bh_sample *header = record;

	if (length < sizeof(*header) || header->user_count > BH_USER_FRAMES_MAX ||
	    header->kernel_count > BH_KERNEL_FRAMES_MAX || header->reason >= BH_REASON_COUNT ||
	    length < sizeof(*header) +
			 ((size_t)header->user_count + header->kernel_count) * sizeof(uint64_t))
		return false;
	if (!(header->flags & BH_SAMPLE_MANAGED))
		return true;
	const uint64_t *frames = (const uint64_t *)(header + 1);
	unsigned int words = 0;
	while (words < header->user_count)
		words += bh_frame_words(frames[words]);
	return words == header->user_count;
}

bool samples_refers(const struct bh_sample *header)
{
	return header->stack_id && !header->user_count && !header->kernel_count;
}

/* Of a managed stack's user frame; of others each is a word. */
static unsigned int frame_words(const struct bh_sample *header, uint64_t frame)
{
	return header->flags & BH_SAMPLE_MANAGED ? bh_frame_words(frame) : 1;
}

bool samples_resolvable(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames)
{
	for (unsigned int i = 0; i < header->user_count; i += frame_words(header, frames[i])) {
		if (!(frames[i] & BH_FRAME_RAW) &&
		    !modules_find(worker, (uint32_t)(frames[i] >> BH_FRAME_OFFSET_BITS)))
			return false;
	}
	return true;
}

static struct worker_process **process_bucket(struct worker *worker, uint32_t tgid)
{
	return &worker->processes[tgid % WORKER_PROCESS_BUCKETS];
}

static struct worker_process *process_find(struct worker *worker, uint32_t tgid)
{
	for (struct worker_process *p = *process_bucket(worker, tgid); p; p = p->next) {
		if (p->said.tgid == tgid)
			return p;
	}
	return NULL;
}

void samples_on_process(struct worker *worker, const struct msg_process *message)
{
	struct worker_process *process = process_find(worker, message->tgid);

	if (!process) {
		process = calloc(1, sizeof(*process));
		if (!process)
			return;
		process->next = *process_bucket(worker, message->tgid);
		*process_bucket(worker, message->tgid) = process;
	} else if (!memcmp(&process->said, message, sizeof(*message))) {
		return;
	}
	process->said = *message;
	process->said.comm[sizeof(process->said.comm) - 1] = 0;
	process->said.path[sizeof(process->said.path) - 1] = 0;
	process->version++;
}

void samples_on_process_gone(struct worker *worker, uint32_t tgid)
{
	for (struct worker_process **link = process_bucket(worker, tgid); *link;
	     link = &(*link)->next) {
		struct worker_process *process = *link;

		if (process->said.tgid != tgid)
			continue;
		*link = process->next;
		free(process);
		return;
	}
}

/* Nothing was heard of a process that ended before anyone could ask: its thread's name has to do.
 */
static int process_number(struct worker *worker, const struct bh_sample *header, const char *comm,
			  uint32_t *number)
{
	const struct worker_process *process = process_find(worker, header->tgid);
	const struct {
		uint64_t start;
		uint32_t tgid, version;
	} id = {header->process_start_ns, header->tgid, process ? process->version : 0};
	const XXH128_hash_t key = XXH3_128bits(&id, sizeof(id));

	if (id_map_get(&worker->numbers.processes, key, number))
		return 0;
	struct record_process record = {
	    .tgid = header->tgid,
	    .start_ns = header->process_start_ns,
	    .comm = process && process->said.comm[0] ? process->said.comm : comm,
	    .path = process ? process->said.path : "",
	    .container_id = "",
	    .service_name = "",
	};
	if (worker->identity)
		return identity_number(worker, header, key, &record, number);
	record.number = *number = ++worker->numbers.next_process;
	records_add_process(worker->batch, &record);
	return id_map_put(&worker->numbers.processes, key, *number);
}

static int thread_number(struct worker *worker, const struct bh_sample *header, uint32_t *number)
{
	struct {
		uint32_t process, tid;
		char comm[BH_COMM_BYTES + 8];
	} id = {.tid = header->tid};

	memcpy(id.comm, header->comm, strnlen(header->comm, BH_COMM_BYTES));
	int r = process_number(worker, header, id.comm, &id.process);
	if (r < 0)
		return r;
	const XXH128_hash_t key = XXH3_128bits(&id, sizeof(id));
	if (id_map_get(&worker->numbers.threads, key, number))
		return 0;
	*number = ++worker->numbers.next_thread;
	records_add_thread(worker->batch, &(struct record_thread){.number = *number,
								  .process = id.process,
								  .tid = id.tid,
								  .comm = id.comm});
	return id_map_put(&worker->numbers.threads, key, *number);
}

/* The numbers of a stack's frames; managed ones may stand for several each. */
struct stack_frames {
	uint32_t numbers[BH_FRAMES_ROOM + RUNTIME_INLINED_MAX + 1];
	uint32_t count;
};

/* User frames of which some are managed. What does not fit is left out: inlined functions may make
 * a deep stack deeper. */
static int stack_add_managed(struct worker *worker, const struct bh_sample *header,
			     const uint64_t *frames, struct stack_frames *to)
{
	struct managed_process *process = runtimes_process(worker, header->tgid);
	int r = 0;

	for (unsigned int i = 0; i < header->user_count && !r; i += bh_frame_words(frames[i])) {
		uint32_t first, count = 1;

		if (bh_frame_is_managed(frames[i]))
			r = frames_number_managed(worker, process, &frames[i], &first, &count);
		else
			r = frames_number(worker, frames[i], &first);
		for (uint32_t j = 0; !r && j < count && to->count < BH_FRAMES_ROOM; j++)
			to->numbers[to->count++] = first + j;
	}
	return r;
}

/* Leaf first: kernel frames, user frames, and where the user stack was cut, the reason as its
 * outermost frame. */
static int stack_define(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames, uint32_t number)
{
	struct stack_frames stack; /* large: only what is used is written */
	const uint64_t beginnings = worker->beginnings;
	int r = 0;

	stack.count = 0;
	for (unsigned int i = 0; i < header->kernel_count && !r; i++)
		r = frames_number(worker, frames[header->user_count + i],
				  &stack.numbers[stack.count++]);
	if (!r && header->flags & BH_SAMPLE_MANAGED)
		r = stack_add_managed(worker, header, frames, &stack);
	else
		for (unsigned int i = 0; i < header->user_count && !r; i++)
			r = frames_number(worker, frames[i], &stack.numbers[stack.count++]);
	if (!r && header->reason != BH_REASON_COMPLETE)
		r = frames_abort_marker(worker, header->reason, &stack.numbers[stack.count++]);
	if (r < 0)
		return r;
	/* A batch in between could not be sent, and with it went what these numbers mean. */
	if (worker->beginnings != beginnings)
		return -EAGAIN;
	records_add_stack(worker->batch, &(struct record_stack){.number = number,
								.reason = header->reason,
								.frames = stack.numbers,
								.count = stack.count});
	return 0;
}

static int stack_number(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames, uint32_t *number)
{
	const size_t bytes =
	    ((size_t)header->user_count + header->kernel_count) * sizeof(frames[0]);
	/* Where user frames end and kernel frames begin is part of what the stack is. */
	const uint64_t seed = (uint64_t)header->user_count << 16 | header->reason;
	XXH128_hash_t key = XXH3_128bits_withSeed(frames, bytes, seed);

	/* What managed frames mean depends on the process. */
	if (header->flags & BH_SAMPLE_MANAGED) {
		const uint64_t id[] = {
		    key.low64, key.high64,
		    runtimes_incarnation(runtimes_process(worker, header->tgid))};

		key = XXH3_128bits(id, sizeof(id));
	}
	if (id_map_get(&worker->numbers.stacks, key, number))
		return 0;
	int r = stack_define(worker, header, frames, worker->numbers.next_stack + 1);
	if (r < 0)
		return r;
	*number = ++worker->numbers.next_stack;
	return id_map_put(&worker->numbers.stacks, key, *number);
}

static XXH128_hash_t known_key(const struct bh_sample *header)
{
	return (XXH128_hash_t){.low64 = header->stack_id, .high64 = header->tgid};
}

static int known_put(struct known_stacks *known, const struct bh_sample *header, uint32_t number)
{
	uint32_t old;

	if (header->time_ns - known->since_ns > KNOWN_PERIOD_NS &&
	    header->time_ns > known->since_ns) {
		id_map_fini(&known->before);
		known->before = known->now;
		known->now = (struct id_map){0};
		known->since_ns = header->time_ns;
	}
	/* Two CPUs may have sent it at once. */
	if (id_map_get(&known->now, known_key(header), &old))
		return 0;
	return id_map_put(&known->now, known_key(header), number);
}

static bool known_get(const struct known_stacks *known, const struct bh_sample *header,
		      uint32_t *number)
{
	return id_map_get(&known->now, known_key(header), number) ||
	       id_map_get(&known->before, known_key(header), number);
}

static void samples_forget(struct worker *worker)
{
	id_map_fini(&worker->known.now);
	id_map_fini(&worker->known.before);
	id_map_fini(&worker->numbers.modules);
	id_map_fini(&worker->numbers.functions);
	id_map_fini(&worker->numbers.frames);
	id_map_fini(&worker->numbers.stacks);
	id_map_fini(&worker->numbers.processes);
	id_map_fini(&worker->numbers.threads);
	worker->numbers = (struct numbers){0};
	worker->beginnings++;
	identity_forget(worker);
	worker->reset_wanted = true;
	worker->forget_at_ns = 0;
}

/* The kernel side is to refer to no stack that it sent until now. */
static void known_revoke(struct worker *worker)
{
	worker->revoked_ns = clock_monotonic_ns();
	if (worker->control)
		__atomic_fetch_add(&worker->control->generation, 1, __ATOMIC_RELAXED);
}

/* The stack's number; a new one is described. */
static int sample_stack(struct worker *worker, const struct bh_sample *header,
			const uint64_t *frames, uint32_t *number)
{
	int r = stack_number(worker, header, frames, number);

	if (!r && header->stack_id)
		r = known_put(&worker->known, header, *number);
	return r;
}

/* Without memory for it, its next samples are lost as forgotten. */
static void carry(struct worker *worker, const struct bh_sample *header, const uint64_t *frames)
{
	const size_t bytes =
	    ((size_t)header->user_count + header->kernel_count) * sizeof(frames[0]);

	if (!header->stack_id || header->time_ns + REVOKED_BEFORE_NS < worker->revoked_ns ||
	    worker->carried_count == LIMIT_WORKER_CARRIED)
		return;
	struct carried_stack *stack = malloc(sizeof(*stack) + bytes);
	if (!stack)
		return;
	stack->header = *header;
	memcpy(stack->frames, frames, bytes);
	stack->next = worker->carried;
	worker->carried = stack;
	worker->carried_count++;
}

/* Describe what was carried over, or drop it. */
static void carry_end(struct worker *worker, bool describe)
{
	while (worker->carried) {
		struct carried_stack *stack = worker->carried;
		uint32_t number;

		worker->carried = stack->next;
		if (describe && sample_stack(worker, &stack->header, stack->frames, &number) < 0)
			log_debug("a stack could not be carried over");
		free(stack);
	}
	worker->carried_count = 0;
}

void samples_forget_soon(struct worker *worker)
{
	if (worker->forget_at_ns)
		return;
	known_revoke(worker);
	worker->forget_at_ns = worker->revoked_ns + FORGET_AFTER_NS;
}

void samples_begin_anew(struct worker *worker)
{
	size_t length;

	worker->losses.lost[LOSS_EXPORTER_QUEUE] += records_samples(worker->batch);
	if (records_bytes(worker->batch))
		records_finish(worker->batch, 0, false, &length);
	known_revoke(worker);
	samples_forget(worker);
	carry_end(worker, false);
}

static bool numbers_full(const struct numbers *numbers)
{
	return numbers->frames.count > LIMIT_WORKER_FRAMES ||
	       numbers->stacks.count > LIMIT_WORKER_STACKS ||
	       numbers->threads.count > LIMIT_WORKER_STACKS;
}

void samples_forget_when_due(struct worker *worker, uint64_t time_ns)
{
	if (worker->forget_at_ns && time_ns >= worker->forget_at_ns) {
		/* The old numbers and the new ones do not go into one batch. */
		samples_flush(worker);
		samples_forget(worker);
		carry_end(worker, true);
	} else if (numbers_full(&worker->numbers)) {
		samples_forget_soon(worker);
	}
}

bool samples_full(const struct worker *worker)
{
	return records_bytes(worker->batch) + identity_bytes(worker) > LIMIT_BATCH_BYTES / 2;
}

void samples_flush(struct worker *worker)
{
	size_t length;
	const size_t samples = records_samples(worker->batch);

	identity_describe(worker);
	if (!records_bytes(worker->batch))
		return;
	const uint8_t *data = records_finish(worker->batch, worker->window.sequence + 1,
					     worker->reset_wanted, &length);
	worker->reset_wanted = false;
	worker->batch_bytes += length;
	int r = resend_buffer_send(&worker->window, &worker->role.peers[ROLE_EXPORTER], data,
				   length, clock_monotonic_ns());
	if (r < 0) {
		/* Its definitions are lost with it: the exporter has to begin anew. */
		log_warning("a batch was lost: samples=%zu error=%s", samples, strerror(-r));
		worker->losses.lost[LOSS_EXPORTER_QUEUE] += samples;
		samples_begin_anew(worker);
	}
}

void samples_make_room(struct worker *worker)
{
	if (samples_full(worker))
		samples_flush(worker);
}

void samples_add(struct worker *worker, const struct bh_sample *header, const uint64_t *frames)
{
	struct record_sample sample = {.time_ns = header->time_ns, .cpu = header->cpu};
	int r = 0;

	samples_make_room(worker);
	if (samples_refers(header)) {
		if (!known_get(&worker->known, header, &sample.stack)) {
			worker->losses.lost[LOSS_STACK_FORGOTTEN]++;
			return;
		}
	} else {
		r = sample_stack(worker, header, frames, &sample.stack);
		if (worker->forget_at_ns)
			carry(worker, header, frames);
	}
	if (!r)
		r = thread_number(worker, header, &sample.thread);
	if (r < 0) {
		worker->losses.lost[LOSS_BAD_RECORD]++;
		return;
	}
	records_add_sample(worker->batch, &sample);
}
