/* SPDX-License-Identifier: Apache-2.0 */
/* Native frames that a namer knows: one frame of a stack stands for the functions inlined there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/frame_kind.h"
#include "symbolizer/namer/named_frames.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/symbolizer/ignore_record.h"

IGNORE_RECORD(process)
IGNORE_RECORD(thread)
IGNORE_RECORD(sample)

enum {
	MODULE = 7,
	IDS = 32,
	/* Offsets in the file: what the namer says about them. */
	INLINED = 0x100, /* add(), inlined into run() */
	UNKNOWN = 0x200,
	MANGLED = 0x280,
	NO_TIME = 0x300,
};

/* What the exporter received, by id. */
static struct {
	char functions[IDS][16], system_names[IDS][16], files[IDS][16];
	uint32_t start_lines[IDS];
	struct record_frame frames[IDS];
	uint32_t last_stack[IDS], last_count;
	unsigned int frame_count, function_count;
} sent;

static int on_reset(void *context)
{
	(void)context;
	return 0;
}

IGNORE_RECORD(module)
IGNORE_RECORD(label_set)

static int on_function(void *context, const struct record_function *function)
{
	(void)context;
	cr_assert_lt(function->id, IDS);
	snprintf(sent.functions[function->id], sizeof(sent.functions[0]), "%s", function->name);
	snprintf(sent.system_names[function->id], sizeof(sent.system_names[0]), "%s",
		 function->system_name);
	snprintf(sent.files[function->id], sizeof(sent.files[0]), "%s", function->file);
	sent.start_lines[function->id] = function->start_line;
	sent.function_count++;
	return 0;
}

static int on_frame(void *context, const struct record_frame *frame)
{
	(void)context;
	cr_assert_lt(frame->id, IDS);
	sent.frames[frame->id] = *frame;
	sent.frame_count++;
	return 0;
}

static int on_stack(void *context, const struct record_stack *stack)
{
	(void)context;
	cr_assert_leq(stack->count, IDS);
	memcpy(sent.last_stack, stack->frames, stack->count * sizeof(stack->frames[0]));
	sent.last_count = stack->count;
	return 0;
}

static int on_send(enum message_type type, const void *payload, size_t length)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = ignore_module,
	    .function = on_function,
	    .frame = on_frame,
	    .label_set = ignore_label_set,
	    .stack = on_stack,
	    .process = ignore_process,
	    .thread = ignore_thread,
	    .sample = ignore_sample,
	};

	cr_assert_eq(type, MESSAGE_BATCH);
	cr_assert_eq(records_visit(payload, length, &visitor, NULL), 0);
	return 0;
}

FAKE_PEER(on_send);

static bool there_is_time;

int __wrap_modules_find_frames(struct modules *modules, struct module *module, uint64_t file_offset,
			       struct named_frames *frames);
int __wrap_modules_find_frames(struct modules *modules, struct module *module, uint64_t file_offset,
			       struct named_frames *frames)
{
	(void)modules;
	(void)module;
	if (file_offset == NO_TIME && !there_is_time)
		return -EAGAIN;
	if (file_offset == UNKNOWN)
		return -ENOENT;
	frames->frames[0] =
	    (struct named_frame){.function = "add", .file = "a.go", .line = 7, .start_line = 5};
	frames->frames[1] =
	    (struct named_frame){.function = "run", .file = "r.go", .line = 20, .start_line = 18};
	if (file_offset == MANGLED)
		frames->frames[0] =
		    (struct named_frame){.function = "_ZN1a1bEv", .file = "a.cpp", .mangled = true};
	frames->count = file_offset == MANGLED ? 1 : 2;
	frames->kind = file_offset == MANGLED ? FRAME_KIND_NATIVE : FRAME_KIND_GO;
	return 0;
}

static struct worker *worker_new(void)
{
	static struct bh_worker_control control;
	const struct msg_module module = {.id = MODULE, .path = "/bin/program"};
	struct worker *worker = calloc(1, sizeof(*worker));

	cr_assert_eq(worker_init(worker, false), 0);
	worker->control = &control;
	cr_assert_eq(modules_add(&worker->modules, &module, open("/proc/self/exe", O_RDONLY)), 0);
	worker->modules.reading.most_ns = UINT64_MAX / 2;
	return worker;
}

static void worker_free(struct worker *worker)
{
	worker_fini(worker);
	free(worker);
}

/* Gives the worker a sample whose stack has one native frame. */
static void sample(struct worker *worker, uint64_t offset)
{
	static uint64_t stack;
	const uint64_t frame = (uint64_t)MODULE << BH_FRAME_OFFSET_BITS | offset;
	const struct bh_sample header = {.stack_id = ++stack,
					 .time_ns = stack,
					 .tgid = 42,
					 .tid = 42,
					 .user_count = 1,
					 .comm = "test"};

	samples_add(worker, &header, &frame);
	batch_flush(&worker->batch);
}

static void expect_frame(unsigned int at, const char *function, const char *file, uint32_t line,
			 uint32_t start_line)
{
	const struct record_frame *frame = &sent.frames[sent.last_stack[at]];

	cr_expect_str_eq(sent.functions[frame->function], function);
	cr_expect_str_eq(sent.system_names[frame->function], "");
	cr_expect_str_eq(sent.files[frame->function], file);
	cr_expect_eq(frame->line, line);
	cr_expect_eq(sent.start_lines[frame->function], start_line);
	cr_expect_neq(frame->module, 0);
	cr_expect_eq(frame->kind, FRAME_KIND_GO);
	cr_expect_eq(frame->caller, at ? 0 : sent.last_stack[1]);
}

Test(native_names, a_frame_stands_for_the_functions_that_are_inlined_there)
{
	struct worker *worker = worker_new();

	sample(worker, INLINED);
	cr_assert_eq(sent.last_count, 2);
	expect_frame(0, "add", "a.go", 7, 5);
	expect_frame(1, "run", "r.go", 20, 18);
	/* The second address in the same functions defines frames, and no functions. */
	const unsigned int functions = sent.function_count, frames = sent.frame_count;
	sample(worker, INLINED + 1);
	cr_expect_eq(sent.function_count, functions);
	cr_expect_eq(sent.frame_count, frames + 2);
	/* A frame that was named is not named again. */
	sample(worker, INLINED);
	cr_expect_eq(sent.frame_count, frames + 2);
	worker_free(worker);
}

Test(native_names, what_the_namer_does_not_know_is_shown_by_its_symbol)
{
	struct worker *worker = worker_new();

	sample(worker, UNKNOWN);
	cr_assert_eq(sent.last_count, 1);
	cr_expect_eq(sent.frames[sent.last_stack[0]].line, 0);
	cr_expect_eq(sent.frames[sent.last_stack[0]].kind, FRAME_KIND_NATIVE);
	worker_free(worker);
}

Test(native_names, names_of_the_linker_are_demangled)
{
	struct worker *worker = worker_new();

	sample(worker, MANGLED);
	cr_assert_eq(sent.last_count, 1);
	const struct record_frame *frame = &sent.frames[sent.last_stack[0]];
	cr_expect_str_eq(sent.functions[frame->function], "a::b");
	cr_expect_str_eq(sent.system_names[frame->function], "_ZN1a1bEv");
	cr_expect_str_eq(sent.files[frame->function], "a.cpp");
	cr_expect_eq(frame->kind, FRAME_KIND_NATIVE);
	cr_expect_eq(frame->caller, 0);
	worker_free(worker);
}

Test(native_names, names_come_later_if_there_is_no_time)
{
	struct worker *worker = worker_new();

	sample(worker, NO_TIME);
	cr_assert_eq(sent.last_count, 1);
	cr_expect_eq(sent.frames[sent.last_stack[0]].function, 0);
	cr_expect(worker->stack_ids.send_again);
	there_is_time = true;
	sample(worker, NO_TIME);
	cr_assert_eq(sent.last_count, 2);
	expect_frame(0, "add", "a.go", 7, 5);
	worker_free(worker);
}

/* As long as it may come, parts of a name may be missing. */
Test(native_names, names_come_later_if_a_further_file_is_awaited)
{
	struct worker *worker = worker_new();
	struct module *module = modules_find(&worker->modules, MODULE);

	module->further.state = MODULE_DEBUG_ASKED;
	module->further.asked_ns = clock_monotonic_ns();
	sample(worker, INLINED);
	cr_assert_eq(sent.last_count, 1);
	cr_expect_eq(sent.frames[sent.last_stack[0]].line, 0);
	cr_expect(worker->stack_ids.send_again);
	module->further.state = MODULE_DEBUG_ANSWERED;
	sample(worker, INLINED);
	cr_assert_eq(sent.last_count, 2);
	expect_frame(0, "add", "a.go", 7, 5);
	worker_free(worker);
}

/* A call may be the last thing that a function does, so that it would return to the next one. */
Test(native_names, callers_in_the_kernel_are_those_that_call)
{
	static const char symbols[] = "ffffffff81000000 T _text\n"
				      "ffffffff81000000 T one\n"
				      "ffffffff81000100 T two\n"
				      "ffffffff81000200 T three\n"
				      "ffffffff81000300 T _etext\n";
	const uint64_t frames[] = {0xffffffff81000100, 0xffffffff81000100, 0xffffffff81000200};
	const struct bh_sample header = {
	    .stack_id = 1, .time_ns = 1, .tgid = 1, .tid = 1, .kernel_count = 3, .comm = "test"};
	static const char *const expected[] = {"two", "one", "two"};
	struct worker *worker = worker_new();
	const int fd = memfd_create("kallsyms", MFD_CLOEXEC);

	cr_assert_eq(write(fd, symbols, sizeof(symbols) - 1), (ssize_t)sizeof(symbols) - 1);
	cr_assert_eq(kernel_symbols_new(fd, &worker->kernel), 0);
	close(fd);
	samples_add(worker, &header, frames);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.last_count, 3);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_str_eq(sent.functions[sent.frames[sent.last_stack[i]].function],
				 expected[i], "%u", i);
	worker_free(worker);
}
