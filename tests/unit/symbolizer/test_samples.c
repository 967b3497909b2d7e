/* SPDX-License-Identifier: Apache-2.0 */
/* Samples whose stacks the kernel side sends once and then refers to, up to the batches that the
 * exporter would receive. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/symbolizer/ignore_record.h"

IGNORE_RECORD(module)
IGNORE_RECORD(label_set)
IGNORE_RECORD(function)
IGNORE_RECORD(process)
IGNORE_RECORD(thread)

/* What the exporter received: on_send() reads the batches that the worker sends. */
static struct {
	int answer; /* what peer_send() returns */
	unsigned int batches, resets, frames, stacks, samples;
	uint32_t last_stack, last_stack_frames;
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
	sent.defined[stack->id] = true;
	sent.stacks++;
	sent.last_stack_frames = stack->count;
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

static int on_frame(void *context, const struct record_frame *frame)
{
	(void)context;
	(void)frame;
	sent.frames++;
	return 0;
}

static int on_send(enum message_type type, const void *payload, size_t length)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = ignore_module,
	    .function = ignore_function,
	    .frame = on_frame,
	    .label_set = ignore_label_set,
	    .stack = on_stack,
	    .process = ignore_process,
	    .thread = ignore_thread,
	    .sample = on_sample,
	};

	if (type == MESSAGE_OPEN_JIT_MAP)
		return -ENOBUFS;
	cr_assert_eq(type, MESSAGE_BATCH);
	if (sent.answer)
		return sent.answer;
	sent.batches++;
	cr_assert_eq(records_visit(payload, length, &visitor, NULL), 0);
	return 0;
}

FAKE_PEER(on_send);
FAILING_MEMORY;

static struct bh_worker_control control;

static struct worker *worker_new(void)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	cr_assert_eq(worker_init(worker, false), 0);
	worker->control = &control;
	return worker;
}

static void worker_free(struct worker *worker)
{
	worker_fini(worker);
	free(worker);
}

enum {
	TGID = 42
};

#define SECOND_NS 1000000000ull

/* Gives the worker a sample with one frame, or (frame 0) one that refers to the stack. */
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

	cr_assert_eq(sample_is_reference(&header), !frame);
	samples_add(worker, &header, &raw);
}

static void flush(struct worker *worker)
{
	batch_flush(&worker->batch);
}

/* Returns how many samples were lost because the worker had no definition of their stack. */
static uint64_t lost_references(const struct worker *worker)
{
	return worker->losses.lost[LOSS_STACK_UNDEFINED];
}

/* The kernel side gives such a stack no id, because without frames it would be a reference. */
Test(samples, a_stack_without_frames_is_defined)
{
	struct worker *worker = worker_new();
	const struct bh_sample header = {
	    .time_ns = 1, .tgid = TGID, .tid = TGID, .reason = BH_REASON_COMPAT, .comm = "test"};

	samples_add(worker, &header, NULL);
	samples_add(worker, &header, NULL);
	flush(worker);
	cr_assert_eq(sent.samples, 2);
	cr_assert_eq(sent.stacks, 1);
	cr_assert_eq(lost_references(worker), 0);
	worker_free(worker);
}

Test(samples, a_repeated_stack_is_defined_once)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	add(worker, 2, TGID, 701, 0x2000);
	add(worker, 3, TGID, 700, 0);
	flush(worker);
	cr_assert_eq(sent.samples, 3);
	cr_assert_eq(sent.stacks, 2);
	cr_assert_eq(sent.last_stack, 1);
	cr_assert_eq(sent.resets, 1, "the first batch resets the exporter");
	cr_assert_eq(lost_references(worker), 0);
	worker_free(worker);
}

/* Adds a sample with `count` frames in the module 7, of which there may be two. */
static void add_in_module(struct worker *worker, uint16_t count)
{
	const struct bh_sample header = {
	    .time_ns = SECOND_NS, .tgid = TGID, .tid = TGID, .user_count = count};
	const uint64_t frames[] = {7ull << BH_FRAME_OFFSET_BITS | 0x1000,
				   7ull << BH_FRAME_OFFSET_BITS | 0x1100};

	samples_add(worker, &header, frames);
}

/* Short processes may have ended before their file could be opened. A later process with the same
 * module makes the file available. */
Test(samples, frames_are_defined_again_when_the_file_of_their_module_comes_late)
{
	struct worker *worker = worker_new();
	const struct msg_module module = {.id = 7, .path = "/bin/program"};

	cr_assert_eq(modules_add(&worker->modules, &module, -1), 0);
	add_in_module(worker, 1);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.frames, 1);
	cr_assert_eq(modules_add(&worker->modules, &module, open(FIXTURE, O_RDONLY)), 0);
	add_in_module(worker, 2);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.frames, 3);
	worker_free(worker);
}

/* On an overloaded machine the announcement may come after samples have waited for it in vain. */
Test(samples, stacks_are_defined_again_when_their_module_is_announced_late)
{
	struct worker *worker = worker_new();
	const struct msg_module module = {.id = 7, .path = "/bin/program"};

	for (int i = 0; i < 2; i++)
		add_in_module(worker, 1);
	flush(worker);
	cr_expect_eq(sent.frames, 1, "nothing new is said of it meanwhile");
	cr_expect(worker->modules.missed);
	cr_assert_eq(modules_add(&worker->modules, &module, open(FIXTURE, O_RDONLY)), 0);
	const unsigned int stacks = sent.stacks;
	for (int i = 0; i < 2; i++)
		add_in_module(worker, 1);
	flush(worker);
	cr_expect_eq(sent.frames, 2);
	cr_expect_eq(sent.stacks, stacks + 1);
	worker_free(worker);
}

/* Without time to read symbols, a stack gets no names, but it gets them later. */
Test(samples, stacks_without_names_are_defined_again)
{
	struct worker *worker = worker_new();
	struct time_share *reading = &worker->modules.reading;
	const struct msg_module module = {.id = 7, .path = "/bin/program"};
	static const struct {
		bool time;
		unsigned int frames, stacks; /* that were defined afterwards, in total */
	} steps[] = {{false, 1, 1}, {false, 1, 2}, {true, 2, 3}, {true, 2, 3}, {false, 2, 3}};

	cr_assert_eq(modules_add(&worker->modules, &module, open(FIXTURE, O_RDONLY)), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		*reading = (struct time_share){.most_ns = steps[i].time ? NS_PER_S : 0};
		add_in_module(worker, 1);
		batch_flush(&worker->batch);
		cr_expect_eq(sent.frames, steps[i].frames, "step %zu: %u", i, sent.frames);
		cr_expect_eq(sent.stacks, steps[i].stacks, "step %zu: %u", i, sent.stacks);
	}
	worker_free(worker);
}

/* For an hour, perhaps. */
Test(samples, frames_of_a_file_that_is_left_alone_are_not_asked_for_again)
{
	static struct work_page page;
	struct worker *worker = worker_new();
	const struct msg_module module = {.id = 7, .path = "/bin/program"};

	cr_assert_eq(modules_add(&worker->modules, &module, open(FIXTURE, O_RDONLY)), 0);
	const struct work_subject *file = &modules_find(&worker->modules, 7)->subject;
	const struct quarantine_key key = {QUARANTINE_FILE, {file->device, file->inode}};
	worker->modules.work_page = &page;
	quarantine_add(&page.quarantine, &key, clock_monotonic_ns());
	for (unsigned int i = 1; i <= 2; i++) {
		add_in_module(worker, 1);
		flush(worker);
		cr_expect_not(worker->stack_ids.send_again);
		cr_expect_eq(sent.frames, 1);
		cr_expect_eq(sent.stacks, i, "they are looked up again when they come");
	}
	worker_free(worker);
}

/* --- managed frames --- */

static enum names_due due;
static const char *managed_name, *reason;

enum names_due __wrap_runtimes_symbolize(struct worker *worker, struct managed_process *process,
					 const uint64_t *words, struct named_frames *frames);
enum names_due __wrap_runtimes_symbolize(struct worker *worker, struct managed_process *process,
					 const uint64_t *words, struct named_frames *frames)
{
	(void)worker;
	(void)process;
	(void)words;
	frames->count = 1;
	frames->label_count = 0;
	frames->frames[0] = (struct named_frame){
	    .function = due == NAMES_FINAL ? managed_name : reason, .file = "file"};
	return due;
}

/* Gives the worker a sample with two managed frames, of code at these addresses. */
static void add_managed(struct worker *worker, uint64_t first, uint64_t second)
{
	struct {
		struct bh_sample header;
		uint64_t frames[4];
	} sample = {.header = {.time_ns = SECOND_NS,
			       .tgid = TGID,
			       .tid = TGID,
			       .user_count = 4,
			       .flags = BH_SAMPLE_MANAGED},
		    .frames = {bh_frame_managed(BH_RUNTIME_CPYTHON, first, 1), 0,
			       bh_frame_managed(BH_RUNTIME_CPYTHON, second, 1), 0}};

	cr_assert(samples_add(worker, &sample.header, sample.frames));
	flush(worker);
}

/* All frames without a name look the same, if it is for the same reason. The kernel side is only
 * asked for frames of processes that are not left alone. */
Test(samples, stacks_of_a_process_without_time_are_defined_again)
{
	struct worker *worker = worker_new();
	static const struct {
		enum names_due due;
		const char *reason;
		unsigned int frames, stacks; /* that were defined afterwards, in total */
	} steps[] = {{NAMES_SOON, "no time", 1, 1},	{NAMES_SOON, "no time", 1, 2},
		     {NAMES_LATER, "left alone", 2, 3}, {NAMES_LATER, "left alone", 2, 4},
		     {NAMES_LATER, "freed", 3, 5},	{NAMES_FINAL, NULL, 5, 6},
		     {NAMES_FINAL, NULL, 5, 6},		{NAMES_SOON, "no time", 5, 6}};

	managed_name = "function";
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		due = steps[i].due;
		reason = steps[i].reason;
		worker->stack_ids.send_again = false;
		add_managed(worker, 0x1000, 0x2000);
		cr_expect_eq(worker->stack_ids.send_again, i < 2, "step %zu", i);
		cr_expect_eq(sent.frames, steps[i].frames, "step %zu: %u", i, sent.frames);
		cr_expect_eq(sent.stacks, steps[i].stacks, "step %zu: %u", i, sent.stacks);
	}
	worker_free(worker);
}

/* --- keys --- */

/* --- ids of the kernel side --- */

/* Another process that finds out the kernel side's id of a stack gains nothing. */
Test(samples, a_stack_can_only_be_referred_to_by_its_process)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	add(worker, 2, TGID + 1, 700, 0);
	add(worker, 2, TGID, 702, 0);
	flush(worker);
	cr_assert_eq(sent.samples, 1);
	cr_assert_eq(lost_references(worker), 2);
	worker_free(worker);
}

Test(samples, a_stack_is_kept_for_as_long_as_the_kernel_side_refers_to_it)
{
	const uint64_t longest = ((uint64_t)BH_DEDUP_EPOCHS << BH_DEDUP_EPOCH_BITS);
	struct worker *worker = worker_new();

	for (uint64_t start = SECOND_NS; start < 200 * SECOND_NS; start += 7 * SECOND_NS) {
		add(worker, start, TGID, start, 0x1000);
		/* Other stacks come in between, and start new periods. */
		for (uint64_t at = start; at < start + longest; at += 3 * SECOND_NS)
			add(worker, at, TGID, at + 5, 0x2000);
		add(worker, start + longest, TGID, start, 0);
	}
	cr_assert_eq(lost_references(worker), 0);
	add(worker, 900 * SECOND_NS, TGID, 3, 0x1000);
	add(worker, 990 * SECOND_NS, TGID, 4, 0x1000);
	add(worker, 991 * SECOND_NS, TGID, SECOND_NS, 0);
	cr_assert_eq(lost_references(worker), 1, "its memory was freed");
	worker_free(worker);
}

/* The definitions are lost with the batch, so everything has to be defined again. */
Test(samples, a_lost_batch_resets_all_ids)
{
	struct worker *worker = worker_new();
	const uint32_t generation = control.generation;

	add(worker, 1, TGID, 700, 0x1000);
	sent.answer = -ENOBUFS;
	flush(worker);
	sent.answer = 0;
	cr_assert_eq(worker->losses.lost[LOSS_EXPORTER_QUEUE], 1);
	cr_assert_eq(control.generation, generation + 1);
	add(worker, 2, TGID, 700, 0);
	cr_assert_eq(lost_references(worker), 1);
	add(worker, 3, TGID, 800, 0x1000);
	add(worker, 4, TGID, 800, 0);
	flush(worker);
	cr_assert_eq(sent.resets, 1);
	cr_assert_eq(sent.samples, 2);
	worker_free(worker);
}

/* Adds the module `module`, whose path is as long as possible and makes its definition large. */
static void add_module(struct worker *worker, uint32_t module)
{
	struct msg_module message = {.id = module};

	memset(message.path, 'p', sizeof(message.path) - 1);
	cr_assert_eq(modules_add(&worker->modules, &message, -1), 0);
}

enum {
	DEEP_FRAMES = 600
};

/* Adds a stack of DEEP_FRAMES frames, each in a module of its own. */
static void add_deep(struct worker *worker, uint64_t stack)
{
	const struct bh_sample header = {.stack_id = stack,
					 .time_ns = 1,
					 .tgid = TGID,
					 .tid = TGID,
					 .user_count = DEEP_FRAMES,
					 .comm = "test"};
	uint64_t frames[DEEP_FRAMES];

	for (uint32_t i = 0; i < DEEP_FRAMES; i++) {
		if (!modules_find(&worker->modules, i + 1))
			add_module(worker, i + 1);
		frames[i] = (uint64_t)(i + 1) << BH_FRAME_OFFSET_BITS | 0x1000;
	}
	samples_add(worker, &header, frames);
}

/* Its definitions need more room than one batch has: what is full is sent between two frames. */
Test(samples, a_deep_stack_of_new_names_is_sent_in_several_batches)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	add_deep(worker, 701);
	cr_assert_gt(sent.batches, 0);
	cr_assert_eq(sent.stacks, 1, "the second one is not complete");
	flush(worker);
	cr_assert_gt(sent.batches, 1);
	cr_assert_eq(sent.resets, 1, "only the first one");
	cr_assert_eq(sent.frames, 1 + DEEP_FRAMES);
	cr_assert_eq(sent.stacks, 2);
	cr_assert_eq(sent.samples, 2);
	add(worker, 2, TGID, 701, 0);
	flush(worker);
	cr_assert_eq(sent.samples, 3);
	cr_assert_eq(lost_references(worker), 0);
	worker_free(worker);
}

/* The exporter loses samples of stacks that are longer than it expects. */
Test(samples, the_longest_stack_is_one_that_the_exporter_takes)
{
	struct worker *worker = worker_new();
	const struct bh_sample header = {.stack_id = 1,
					 .time_ns = 1,
					 .tgid = TGID,
					 .tid = TGID,
					 .user_count = BH_USER_FRAMES_MAX,
					 .kernel_count = BH_KERNEL_FRAMES_MAX,
					 .reason = BH_REASON_TOO_DEEP,
					 .comm = "test"};
	uint64_t frames[BH_USER_FRAMES_MAX + BH_KERNEL_FRAMES_MAX];

	for (uint32_t i = 0; i < BH_USER_FRAMES_MAX; i++)
		frames[i] = bh_frame_raw(0x1000 + i);
	for (uint32_t i = 0; i < BH_KERNEL_FRAMES_MAX; i++)
		frames[BH_USER_FRAMES_MAX + i] = 0xffffffff81000000 + i;
	samples_add(worker, &header, frames);
	flush(worker);
	cr_assert_eq(sent.samples, 1);
	cr_assert_eq(sent.last_stack_frames, BH_USER_FRAMES_MAX + BH_KERNEL_FRAMES_MAX + 1);
	cr_assert_leq(sent.last_stack_frames, LIMIT_STACK_FRAMES);
	worker_free(worker);
}

Test(samples, a_deep_stack_whose_batches_cannot_be_sent_is_lost_as_a_whole)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	sent.answer = -ENOBUFS;
	add_deep(worker, 701);
	sent.answer = 0;
	flush(worker);
	cr_assert_eq(sent.batches, 0, "what follows refers to what was not sent");
	cr_assert_eq(worker->losses.lost[LOSS_EXPORTER_QUEUE], 2);
	add_deep(worker, 702);
	flush(worker);
	cr_assert_eq(sent.resets, 1);
	cr_assert_eq(sent.frames, DEEP_FRAMES);
	cr_assert_eq(sent.samples, 1);
	worker_free(worker);
}

Test(samples, sample_without_memory_is_lost_with_that_reason)
{
	struct worker *worker = worker_new();

	failing_memory.calloc = true;
	add(worker, 1, TGID, 700, 0x1000);
	failing_memory.calloc = false;
	cr_assert_eq(worker->losses.lost[LOSS_WORKER_MEMORY], 1);
	cr_assert_eq(worker->losses.lost[LOSS_BAD_RECORD], 0);
	add(worker, 2, TGID, 700, 0x1000);
	flush(worker);
	cr_assert_eq(sent.samples, 1);
	worker_free(worker);
}

Test(samples, batch_without_memory_is_lost_with_that_reason)
{
	struct worker *worker = worker_new();

	sent.answer = -ENOMEM;
	add_deep(worker, 701);
	flush(worker);
	cr_assert_eq(worker->losses.lost[LOSS_WORKER_MEMORY], 1);
	cr_assert_eq(worker->losses.lost[LOSS_EXPORTER_QUEUE], 0);
	worker_free(worker);
}

/* The kernel side refers to what it sends after the request but before the reset. */
Test(samples, stacks_between_request_and_reset_are_defined_again)
{
	struct worker *worker = worker_new();

	add(worker, 1, TGID, 700, 0x1000);
	stack_ids_request_reset(worker);
	const uint64_t requested_ns = worker->stack_ids.requested_ns;
	add(worker, requested_ns + 1, TGID, 800, 0x2000);
	add(worker, requested_ns + 2, TGID, 800, 0);
	stack_ids_reset_when_due(worker, worker->stack_ids.reset_at_ns);
	cr_assert_eq(sent.samples, 3);
	cr_assert_eq(worker->stack_ids.retained_count, 0);
	const uint64_t later = requested_ns + SECOND_NS;
	add(worker, later, TGID, 800, 0);
	cr_assert_eq(lost_references(worker), 0);
	/* The kernel side would not refer to this one. */
	add(worker, later, TGID, 700, 0);
	cr_assert_eq(lost_references(worker), 1);
	flush(worker);
	cr_assert_eq(sent.resets, 2);
	cr_assert_eq(sent.samples, 4);
	worker_free(worker);
}

/* Names that came late are shown soon, but many late names do not make each stack be sent each
 * time. */
Test(samples, stacks_are_sent_again_once_per_second)
{
	struct worker *worker = worker_new();
	const uint32_t generation = control.generation;

	add(worker, 1, TGID, 700, 0x1000);
	stack_ids_send_again(worker);
	stack_ids_send_again(worker);
	stack_ids_reset_when_due(worker, 10 * NS_PER_S);
	cr_assert_eq(control.generation, generation + 1);
	add(worker, 2, TGID, 700, 0);
	cr_assert_eq(lost_references(worker), 0, "it was on its way");
	stack_ids_send_again(worker);
	stack_ids_reset_when_due(worker, 11 * NS_PER_S);
	cr_assert_eq(control.generation, generation + 1);
	stack_ids_reset_when_due(worker, 11 * NS_PER_S + 1);
	cr_assert_eq(control.generation, generation + 2);
	stack_ids_reset_when_due(worker, 20 * NS_PER_S);
	cr_assert_eq(control.generation, generation + 2);
	worker_free(worker);
}

/* The kernel side is told first; references that it sent before are still understood. */
Test(samples, too_many_ids_are_reset_after_the_kernel_side_was_told)
{
	struct worker *worker = worker_new();
	const uint32_t generation = control.generation;

	for (uint64_t i = 1; i <= LIMIT_WORKER_STACKS; i++)
		add(worker, 1, TGID, i, 0x1000 + i);
	stack_ids_reset_when_due(worker, UINT64_MAX);
	cr_assert_eq(control.generation, generation, "not yet too many");
	add(worker, 1, TGID, LIMIT_WORKER_STACKS + 1, 0x100);
	stack_ids_reset_when_due(worker, 1);
	cr_assert_eq(control.generation, generation + 1);
	stack_ids_reset_when_due(worker, worker->stack_ids.reset_at_ns - 1);
	add(worker, 2, TGID, 500, 0);
	cr_assert_eq(lost_references(worker), 0, "it was on its way");
	stack_ids_reset_when_due(worker, worker->stack_ids.reset_at_ns);
	cr_assert_eq(control.generation, generation + 1);
	add(worker, 3, TGID, 2, 0x1002);
	add(worker, 3, TGID, 2, 0);
	flush(worker);
	cr_assert_eq(lost_references(worker), 0);
	cr_assert_eq(sent.resets, 2);
	cr_assert_eq(sent.samples, LIMIT_WORKER_STACKS + 4);
	worker_free(worker);
}
