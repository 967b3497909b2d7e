/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRuby 2.7, 3.1 to 3.4, and 4.0: attaches to a process. It fills in the block that the walker
 * (bpf/runtime/ruby.bpf.c) reads.
 *
 * How this works: each thread keeps the address of its execution context in thread-local storage.
 * If Ruby is a library, the dynamic linker has numbered the modules that have such storage, and has
 * written the number of this one where Ruby's code expects it. So that is read, and the walker
 * finds the storage of its thread by it. In 2.7 there is a key of pthread_getspecific(3) instead,
 * whose number is read. The garbage collector's flags are where the virtual machine says that they
 * are, once it has been created.
 *
 * YJIT and ZJIT reserve memory without a file for the code that they compile, and make it
 * executable page by page. From the first executable area on, the largest possible size is taken
 * for a reservation. Other code may be there, too; in that the walker finds no return address of
 * Ruby.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/ruby_file.h"
#include "symbolizer/runtime/ruby_names.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/thread_keys.h"

enum {
	/* A process has some ten modules with thread-local storage. */
	MODULES_MAX = 4096,
	OFFSET_MAX = 1 << 24,
	/* Of compiled code: the default of --yjit-mem-size in 3.4, and of --zjit-mem-size in 4.0.
	 * In 3.3 that of --yjit-exec-mem-size is 48 MiB. 3.1 makes all of its 256 MiB executable at
	 * once. */
	COMPILED_BYTES = 128 << 20,
};

static void ruby_release(void *image)
{
	free(image);
}

static void add_range(struct runtime_layout *layout, uint64_t start, uint64_t end, uint32_t data)
{
	if (start < end && layout->range_count < RUNTIME_RANGES_MAX)
		layout->ranges[layout->range_count++] = (struct runtime_range){
		    .start = start, .end = end, .data = data, .in_file = data != RUBY_RANGE_JIT};
}

/* Adds what may be compiled code, up to where the file is mapped. */
static void add_compiled_code(const struct runtime_process *process, struct runtime_layout *layout)
{
	const struct runtime_code_memory *memory = process->code_memory;
	uint64_t end = 0;

	for (unsigned int i = 0; memory && i < memory->count; i++) {
		const struct runtime_code_area *area = &memory->areas[i];

		if (area->label[0] || area->start < end)
			continue;
		end = area->start + COMPILED_BYTES;
		if (end < area->end)
			end = area->end;
		for (unsigned int m = 0; m < process->mapping_count; m++) {
			const uint64_t start = process->mappings[m].start;

			if (area->start < start && start < end)
				end = start;
		}
		add_range(layout, area->start, end, RUBY_RANGE_JIT);
	}
}

/* Adds a part of the loop or of rb_vm_exec. */
static void add_part(struct runtime_layout *layout, struct ruby_block *block, uint64_t start,
		     uint64_t end, uint32_t data)
{
	add_range(layout, start, end, data);
	for (int i = 0; i < RUBY_PARTS; i++) {
		if (!block->parts[i].end) {
			block->parts[i] = (struct ruby_part){start, end, data == RUBY_RANGE_EXEC};
			return;
		}
	}
}

static void add_split(struct runtime_layout *layout, struct ruby_block *block,
		      const struct split_part *part, uint64_t bias, uint32_t data)
{
	if (part->end)
		add_part(layout, block, part->start + bias, part->end + bias, data);
}

/* Sets the layout of a process, except for what is read from its memory. Returns 0 or -ENOMEM. */
static int fill_layout(struct runtime_process *process, struct ruby_block *block)
{
	const struct ruby_image *image = process->image;
	const struct ruby_offsets *o = image->offsets;
	const struct ruby_code *code = &image->code;
	struct runtime_layout *layout = &process->layout;
	const uint64_t bias = process->bias;

	*block = (struct ruby_block){
	    .frame_bytes = o->frame_bytes,
	    .text = o->text,
	    .line_is_object = o->line_is_object,
	    .thread_status = o->thread_status,
	    .thread_context = o->thread_context,
	    .context_thread = o->context_thread,
	    .class_word = o->class_word,
	    .class_path = o->class_path,
	    .lines = o->lines,
	    .ids = code->ids + bias,
	    .last_operator = o->last_operator,
	    .jit_return = o->jit_return,
	};
	if (!process->state)
		process->state = ruby_names_new();
	if (!process->state)
		return -ENOMEM;
	for (int i = 0; i < RUBY_LEAVE_PARTS; i++) {
		block->leave[i].start = code->leave[i].start + bias;
		block->leave[i].end = code->leave[i].end + bias;
	}
	memset(layout, 0, sizeof(*layout));
	add_part(layout, block, code->loop.start + bias, code->loop.end + bias, RUBY_RANGE_LOOP);
	add_part(layout, block, code->exec.start + bias, code->exec.end + bias, RUBY_RANGE_EXEC);
	add_split(layout, block, &code->loop_unlikely, bias, RUBY_RANGE_LOOP);
	add_split(layout, block, &code->exec_unlikely, bias, RUBY_RANGE_EXEC);
	process->follows_code_memory = o->jit_return != 0;
	if (process->follows_code_memory)
		add_compiled_code(process, layout);
	return 0;
}

/* Finds the places in which the key of threads may be. Returns 0 or a negative errno. */
static int find_key(const struct runtime_process *process, struct ruby_block *block)
{
	const struct ruby_image *image = process->image;
	const struct ruby_thread_key *key = &image->code.key;
	uint64_t current;
	uint32_t number = 0;
	int r = memory_read_u64(process->memory, key->current + process->bias, &current);

	if (!r && !current)
		return -EAGAIN;
	if (!r)
		r = memory_read_u32(process->memory, key->number + process->bias, &number);
	if (!r)
		block->key_count = thread_keys_of_number(number, block->keys);
	return r ? r : block->key_count ? 0 : -EAGAIN;
}

/* Finds where threads keep their contexts. Returns 0 or a negative errno. */
static int find_context(const struct runtime_process *process, struct ruby_block *block)
{
	const struct ruby_image *image = process->image;
	const struct ruby_thread_local *context = &image->code.context;
	uint64_t words[2]; /* tls_index: module and offset */

	if (image->code.key.number)
		return find_key(process, block);
	block->offset = (uint64_t)context->offset;
	if (!context->index)
		return 0;
	int r = memory_read(process->memory, context->index + process->bias, words, sizeof(words));
	if (r)
		return r;
	/* The dynamic linker has not written them yet. */
	if (!words[0] || words[0] > MODULES_MAX || words[1] > OFFSET_MAX)
		return -EAGAIN;
	block->module = words[0];
	block->offset = words[1];
	return 0;
}

/* Finds the flags of the garbage collector. Returns 0, -EAGAIN if there is none yet, or an error of
 * memory_read(). */
static int find_collector(const struct runtime_process *process, struct ruby_block *block)
{
	const struct ruby_image *image = process->image;
	const struct ruby_collector *collector = &image->code.collector;
	uint64_t at = collector->variable + process->bias;
	int r = 0;

	if (!collector->variable)
		return 0;
	if (collector->is_indirect)
		r = memory_read_u64(process->memory, at, &at);
	if (!r)
		r = memory_read_u64(process->memory, at, &at);
	if (!r && at)
		r = memory_read_u64(process->memory, at + collector->space, &at);
	if (r)
		return r;
	if (!at)
		return -EAGAIN;
	block->collecting = at + collector->flags;
	block->collecting_mask = collector->mask;
	return 0;
}

static int ruby_attach(struct runtime_process *process)
{
	struct ruby_block block;
	int r = fill_layout(process, &block);

	if (!r)
		r = find_context(process, &block);
	if (!r)
		r = find_collector(process, &block);
	if (!r)
		memcpy(&process->layout.block, &block, sizeof(block));
	return r;
}

/* The dynamic linker numbers the modules in the order in which the program needs them, and keys are
 * made in the same order, so the number is most likely that of the other process. The walker checks
 * what it finds by it. */
static int ruby_expect(struct runtime_process *process, const struct runtime_layout *known)
{
	struct ruby_block block, other;
	int r = fill_layout(process, &block);

	if (r)
		return r;
	memcpy(&other, &known->block, sizeof(other));
	block.module = other.module;
	block.offset = other.offset;
	block.key_count = other.key_count;
	memcpy(block.keys, other.keys, sizeof(block.keys));
	memcpy(&process->layout.block, &block, sizeof(block));
	return 0;
}

static int ruby_symbolize(struct runtime_process *process, const uint64_t *words,
			  struct named_frames *frames)
{
	return process->state ? ruby_names_find(process->state, process->image, process->bias,
						process->memory, words, frames)
			      : -ESTALE;
}

static void ruby_drop_cache(struct runtime_process *process)
{
	/* Names are read each time. */
	process->cached_bytes = 0;
}

static void ruby_detach(struct runtime_process *process)
{
	free(process->state);
	process->state = NULL;
}

const struct runtime_ops runtime_ruby = {
    .recognise = ruby_file_recognise,
    .release = ruby_release,
    .attach = ruby_attach,
    .expect = ruby_expect,
    .symbolize = ruby_symbolize,
    .drop_cache = ruby_drop_cache,
    .detach = ruby_detach,
};
