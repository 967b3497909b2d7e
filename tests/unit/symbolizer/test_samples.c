/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that the kernel side sends once and then refers to. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "symbolizer/worker/worker.h"

/* In the place of ipc/peer.c's: what the exporter would have got. */
static struct {
	int answer; /* of peer_send */
	unsigned int batches, resets, stacks, samples;
	uint32_t last_stack;
	bool defined[LIMIT_WORKER_STACKS + 8];
} sent;

static int on_reset(void *context)
{
	(void)context;
	sent.resets++;
	memset(sent.defined, 0, sizeof(sent.defined));
	return 0;
}

static int on_stack(void *context, const struct record_stack *stack)
{
	(void)context;
	sent.defined[stack->number] = true;
	sent.stacks++;
	return 0;
}

static int on_sample(void *context, const struct record_sample *sample)
{
	(void)context;
	cr_assert(sent.defined[sample->stack]);
	sent.samples++;
	sent.last_stack = sample->stack;
	return 0;
}

static int ignore_module(void *context, const struct record_module *module)
{
	(void)context;
	(void)module;
	return 0;
}

static int ignore_function(void *context, const struct record_function *function)
{
	(void)context;
	(void)function;
	return 0;
}

static int ignore_frame(void *context, const struct record_frame *frame)
{
	(void)context;
	(void)frame;
	return 0;
}

static int ignore_process(void *context, const struct record_process *process)
{
	(void)context;
	(void)process;
	return 0;
}

static int ignore_thread(void *context, const struct record_thread *thread)
{
	(void)context;
	(void)thread;
	return 0;
}

int peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
	      const int *fds, unsigned int fd_count)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = ignore_module,
	    .function = ignore_function,
	    .frame = ignore_frame,
	    .stack = on_stack,
	    .process = ignore_process,
	    .thread = ignore_thread,
	    .sample = on_sample,
	};

	(void)peer;
	(void)fds;
	cr_assert_eq(type, MESSAGE_BATCH);
	cr_assert_eq(fd_count, 0);
	if (sent.answer)
		return sent.answer;
	sent.batches++;
	cr_assert_eq(records_visit(payload, length, &visitor, NULL), 0);
	return 0;
}

static struct bh_worker_control control;

static struct worker *worker_new(void)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	worker->batch = records_new();
	worker->control = &control;
	cr_assert_eq(resend_buffer_init(&worker->window, false), 0);
	return worker;
}

static void worker_free(struct worker *worker)
{
	samples_begin_anew(worker);
	records_free(worker->batch);
	free(worker);
}

enum {
	TGID = 42
};

#define SECOND_NS 1000000000ull

/* With its one frame, or without any. */
static void add(struct worker *worker, uint64_t time_ns, uint32_t tgid, uint64_t stack,
		uint64_t frame)
{
	const uint64_t raw = bh_frame_raw(frame);
	const struct bh_sample header = {.stack_id = stack,
					 .time_ns = time_ns,
					 .tgid = tgid,
					 .tid = tgid,
					 .user_count = frame ? 1 : 0,
					 .comm = "test"};

	cr_assert_eq(samples_refers(&header), !frame);
	samples_add(worker, &header, &raw);
}

static uint64_t forgotten(const struct worker *worker)
{
	return worker->losses.lost[LOSS_STACK_FORGOTTEN];
}

Test(samples, repeated_stack)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	add(worker, 2, TGID, 701, 0x2000);
	add(worker, 3, TGID, 700, 0);
	samples_flush(worker);
	cr_assert_eq(sent.samples, 3);
	cr_assert_eq(sent.stacks, 2);
	cr_assert_eq(sent.last_stack, 1);
	cr_assert_eq(forgotten(worker), 0);
	worker_free(worker);
}

/* The number belongs to one process, whoever else may find it out. */
Test(samples, stack_of_another)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	add(worker, 2, TGID + 1, 700, 0);
	add(worker, 2, TGID, 702, 0);
	samples_flush(worker);
	cr_assert_eq(sent.samples, 1);
	cr_assert_eq(forgotten(worker), 2);
	worker_free(worker);
}

Test(samples, known_for_as_long_as_the_kernel_refers_to_it)
{
	const uint64_t longest = ((uint64_t)BH_DEDUP_EPOCHS << BH_DEDUP_EPOCH_BITS);
	struct worker *worker = worker_new();

	for (uint64_t begin = SECOND_NS; begin < 200 * SECOND_NS; begin += 7 * SECOND_NS) {
		add(worker, begin, TGID, begin, 0x1000);
		/* Others come in between, and the periods change with them. */
		for (uint64_t at = begin; at < begin + longest; at += 3 * SECOND_NS)
			add(worker, at, TGID, at + 5, 0x2000);
		add(worker, begin + longest, TGID, begin, 0);
	}
	cr_assert_eq(forgotten(worker), 0);
	add(worker, 900 * SECOND_NS, TGID, 3, 0x1000);
	add(worker, 990 * SECOND_NS, TGID, 4, 0x1000);
	add(worker, 991 * SECOND_NS, TGID, SECOND_NS, 0);
	cr_assert_eq(forgotten(worker), 1, "memory is given back");
	worker_free(worker);
}

/* The definitions went with the batch: everything anew. */
Test(samples, lost_batch)
{
	struct worker *worker = worker_new();
	const uint32_t generation = control.generation;

	add(worker, 1, TGID, 700, 0x1000);
	sent.answer = -ENOBUFS;
	samples_flush(worker);
	sent.answer = 0;
	cr_assert_eq(worker->losses.lost[LOSS_EXPORTER_QUEUE], 1);
	cr_assert_eq(control.generation, generation + 1);
	add(worker, 2, TGID, 700, 0);
	cr_assert_eq(forgotten(worker), 1);
	add(worker, 3, TGID, 800, 0x1000);
	add(worker, 4, TGID, 800, 0);
	samples_flush(worker);
	cr_assert_eq(sent.resets, 1);
	cr_assert_eq(sent.samples, 2);
	worker_free(worker);
}

/* What the kernel side sends once it was told, but before the worker forgets, will be referred to.
 */
Test(samples, sent_between_word_and_forgetting)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	samples_forget_soon(worker);
	const uint64_t told = worker->revoked_ns;
	add(worker, told + 1, TGID, 800, 0x2000);
	add(worker, told + 2, TGID, 800, 0);
	samples_forget_when_due(worker, worker->forget_at_ns);
	cr_assert_eq(sent.samples, 3);
	cr_assert_eq(worker->carried_count, 0);
	const uint64_t later = told + SECOND_NS;
	add(worker, later, TGID, 800, 0);
	cr_assert_eq(forgotten(worker), 0);
	/* The kernel side would not refer to this one. */
	add(worker, later, TGID, 700, 0);
	cr_assert_eq(forgotten(worker), 1);
	samples_flush(worker);
	cr_assert_eq(sent.resets, 1);
	cr_assert_eq(sent.samples, 4);
	worker_free(worker);
}

/* The kernel side is told first; what it sent before is still understood. */
Test(samples, numbers_are_full)
{
	struct worker *worker = worker_new();
	const uint32_t generation = control.generation;

	for (uint64_t i = 1; i <= LIMIT_WORKER_STACKS; i++)
		add(worker, 1, TGID, i, 0x1000 + i);
	samples_forget_when_due(worker, UINT64_MAX);
	cr_assert_eq(control.generation, generation, "not yet");
	add(worker, 1, TGID, LIMIT_WORKER_STACKS + 1, 0x100);
	samples_forget_when_due(worker, 1);
	cr_assert_eq(control.generation, generation + 1);
	samples_forget_when_due(worker, worker->forget_at_ns - 1);
	add(worker, 2, TGID, 500, 0);
	cr_assert_eq(forgotten(worker), 0, "it was on its way");
	samples_forget_when_due(worker, worker->forget_at_ns);
	cr_assert_eq(control.generation, generation + 1);
	add(worker, 3, TGID, 2, 0x1002);
	add(worker, 3, TGID, 2, 0);
	samples_flush(worker);
	cr_assert_eq(forgotten(worker), 0);
	cr_assert_eq(sent.resets, 1);
	cr_assert_eq(sent.samples, LIMIT_WORKER_STACKS + 4);
	worker_free(worker);
}
