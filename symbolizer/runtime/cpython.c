/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython 3.6 - 3.14: attaches to a process. It finds where the threads keep their PyThreadState
 * and fills in the block that the walker (bpf/runtime/cpython.bpf.c) reads.
 *
 * How this works: CPython stores a thread's PyThreadState under a key of thread-local storage
 * (pthread_setspecific), which it chooses when it starts. The key is not exported, so its place is
 * found by a value (thread_keys.h): the list of interpreters leads to some PyThreadState, whose
 * thread_id is a pthread_t, which on glibc and musl is the thread pointer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/cpython_file.h"
#include "symbolizer/runtime/cpython_jit.h"
#include "symbolizer/runtime/cpython_names.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/thread_keys.h"

enum {
	/* The JIT compiler makes code all the time, which the walker cannot use until the next
	 * refresh. */
	JIT_REFRESH_MS = 250,
	/* A PyStackRef of 3.14 has a tag in its two lowest bits
	 * (Include/internal/pycore_stackref.h). */
	STACKREF_TAG_MASK = 3,
	STACKREF_SINCE_MINOR = 14,
};

static void cpython_release(void *image)
{
	free(image);
}

/* Tries to find the key with one PyThreadState. It fails (-EAGAIN) if the thread currently holds
 * another one, because it runs in another interpreter. */
static int try_state(const struct runtime_process *process, uint64_t state, struct cpython_block *b)
{
	const struct cpython_image *image = process->image;
	uint64_t thread = 0;

	int r = memory_read_u64(process->memory, state + image->offsets.thread_id, &thread);
	if (!r && thread)
		return thread_key_find(process->memory, thread, state, &b->key);
	return r ? r : -EAGAIN;
}

static int try_interpreter(const struct runtime_process *process, uint64_t interpreter,
			   struct cpython_block *b)
{
	const struct cpython_image *image = process->image;
	uint64_t state = 0;
	int r = memory_read_u64(process->memory, interpreter + image->offsets.interpreter_threads,
				&state);

	for (int i = 0; !r && state && i < CPYTHON_THREADS_MAX; i++) {
		if (try_state(process, state, b) == 0)
			return 0;
		r = memory_read_u64(process->memory, state + image->offsets.thread_next, &state);
	}
	return r ? r : -EAGAIN;
}

/* Finds the key in one of the interpreters or, if their list is unknown, with the thread that holds
 * the GIL. Returns 0; -EAGAIN: no thread has a state yet; or an error of memory_read(). */
static int find_states(const struct runtime_process *process, struct cpython_block *b)
{
	const struct cpython_image *image = process->image;
	uint64_t at = 0;
	int r;

	if (!image->interpreters) {
		r = memory_read_u64(process->memory, image->holder + process->bias, &at);
		return r ? r : at ? try_state(process, at, b) : -EAGAIN;
	}
	r = memory_read_u64(process->memory, image->interpreters + process->bias, &at);
	for (int i = 0; !r && at && i < CPYTHON_INTERPRETERS_MAX; i++) {
		if (try_interpreter(process, at, b) == 0)
			return 0;
		r = memory_read_u64(process->memory, at + image->offsets.interpreter_next, &at);
	}
	return r ? r : -EAGAIN;
}

/* Returns the index of a field among the words of a code object that the walker reads. */
static uint32_t code_word(uint16_t offset)
{
	return (uint32_t)(offset - CPYTHON_CODE_FIRST) / 8;
}

/* Returns the bytes of a frame that the walker has to read: up to the end of the last field it
 * uses. */
static uint32_t frame_bytes(const struct cpython_offsets *o)
{
	const uint16_t fields[] = {o->frame_code, o->frame_previous, o->frame_position,
				   o->frame_mark};
	uint32_t end = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const uint32_t word_end = (fields[i] & ~7u) + 8;

		if (end < word_end)
			end = word_end;
	}
	return end;
}

static void fill_block(const struct runtime_process *process, struct cpython_block *b)
{
	const struct cpython_image *image = process->image;
	const struct cpython_offsets *o = &image->offsets;

	b->shape = o->shape;
	if (image->holder)
		b->holder = image->holder + process->bias;
	if (image->interpreters)
		b->interpreters = image->interpreters + process->bias;
	b->interpreter_next = o->interpreter_next;
	b->interpreter_threads = o->interpreter_threads;
	b->thread_next = o->thread_next;
	b->thread_id = o->thread_id;
	b->top = o->thread_top;
	b->cframe_frame = o->cframe_frame;
	b->cframe_previous = o->cframe_previous;
	b->code = o->frame_code;
	b->previous = o->frame_previous;
	b->position = o->frame_position;
	b->frame_bytes = frame_bytes(o);
	b->mark_word = o->frame_mark & ~7u;
	b->mark_shift = (o->frame_mark & 7u) * 8;
	b->shim_owner = o->shim_owner;
	b->code_mask = o->minor >= STACKREF_SINCE_MINOR ? ~(uint64_t)STACKREF_TAG_MASK : ~0ull;
	b->file = code_word(o->file);
	b->name = code_word(o->name);
	b->lines = code_word(o->lines);
	b->first_line = o->first_line - (uint32_t)CPYTHON_CODE_FIRST;
	b->qualified_name =
	    code_word(o->qualified_name != CPYTHON_NONE ? o->qualified_name : o->name);
	if (o->version != CPYTHON_NONE)
		b->version = o->version - (uint32_t)CPYTHON_CODE_FIRST;
	b->string_hash = CPYTHON_STR_HASH;
	b->string_text = o->wide_text;
	b->instructions = o->instructions;
	b->evaluator = image->texts[0].start + process->bias;
	b->before = image->before;
	memcpy(b->after, image->after, sizeof(b->after));
	memcpy(b->after_end, image->after_end, sizeof(b->after_end));
}

/* Sets the layout of a process in which the states of threads are where `block` says, and prepares
 * for naming frames. Returns 0 or -ENOMEM. */
static int fill_layout(struct runtime_process *process, struct cpython_block *block)
{
	const struct cpython_image *image = process->image;
	struct runtime_layout *layout = &process->layout;

	if (!process->state)
		process->state = cpython_names_new();
	if (!process->state)
		return -ENOMEM;
	fill_block(process, block);
	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->block, block, sizeof(*block));
	for (unsigned int i = 0; i < image->text_count; i++)
		layout->ranges[layout->range_count++] =
		    (struct runtime_range){.start = image->texts[i].start + process->bias,
					   .end = image->texts[i].end + process->bias,
					   .in_file = true};
	return 0;
}

static int cpython_attach(struct runtime_process *process)
{
	const struct cpython_image *image = process->image;
	struct cpython_block block = {0};

	int r = find_states(process, &block);
	if (r < 0)
		return r == -EDQUOT ? -EAGAIN : r;
	r = fill_layout(process, &block);
	if (r < 0)
		return r;
	if (image->executors) {
		cpython_jit_add_ranges(process, &process->layout);
		process->refresh_ms = JIT_REFRESH_MS;
		process->follows_code_memory = true;
	}
	return 0;
}

/* The key of the thread-local variable is that of the other process, because an interpreter makes
 * its keys in the same order each time. The walker checks that what it finds there is the state of
 * the thread. */
static int cpython_expect(struct runtime_process *process, const struct runtime_layout *known)
{
	struct cpython_block other;

	memcpy(&other, &known->block, sizeof(other));
	struct cpython_block block = {.key = other.key};
	return fill_layout(process, &block);
}

static int cpython_symbolize(struct runtime_process *process, const uint64_t *words,
			     struct named_frames *frames)
{
	if (!process->state || bh_frame_words(words[0]) != 2)
		return -ESTALE;
	int r = cpython_names_find(process->state, process->image, process->bias, process->memory,
				   words, frames);
	process->cached_bytes = cpython_names_bytes(process->state);
	return r;
}

static void cpython_drop_cache(struct runtime_process *process)
{
	process->cached_bytes = 0;
	if (process->state)
		cpython_names_drop(process->state);
}

static void cpython_detach(struct runtime_process *process)
{
	cpython_names_free(process->state);
	process->state = NULL;
}

const struct runtime_ops runtime_cpython = {
    .recognise = cpython_file_recognise,
    .release = cpython_release,
    .attach = cpython_attach,
    .expect = cpython_expect,
    .symbolize = cpython_symbolize,
    .drop_cache = cpython_drop_cache,
    .detach = cpython_detach,
};
