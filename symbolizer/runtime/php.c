/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PHP 7.4 - 8.6: attaches to a process. It fills in the block that the walker
 * (bpf/runtime/php.bpf.c) reads.
 *
 * How this works: PHP has one list of calls, at a place that depends only on the file. If the file
 * is libphp, the program that uses it may have taken over the variable with the list, so its
 * address is read from where the dynamic linker has written it. In builds for threads each thread
 * has a list; the number of the key that leads to it is read, and the distance of the list from
 * there, which PHP sets when it starts.
 *
 * Code that opcache has compiled is in memory that all processes of a server share, from before
 * they were forked: a mapping of /dev/zero, which the manager reports (struct runtime_code_memory).
 * Regular expressions are compiled into memory without a file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/php_file.h"
#include "symbolizer/runtime/php_names.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/thread_keys.h"

/* Memory that is shared without a file (MAP_SHARED | MAP_ANONYMOUS), or has huge pages. */
static const char *const compiled_labels[] = {"/dev/zero", "/anon_hugepage"};

static void php_release(void *image)
{
	free(image);
}

static bool may_be_compiled(const struct runtime_code_area *area)
{
	for (size_t i = 0; i < sizeof(compiled_labels) / sizeof(compiled_labels[0]); i++) {
		if (!strncmp(area->label, compiled_labels[i], strlen(compiled_labels[i])))
			return true;
	}
	return false;
}

static void add_range(struct runtime_layout *layout, const struct runtime_range *range)
{
	if (layout->range_count < RUNTIME_RANGES_MAX)
		layout->ranges[layout->range_count++] = *range;
}

/* Adds code in a file: a part of the interpreter's loop. */
static void add_loop(struct runtime_layout *layout, uint64_t start, uint64_t end)
{
	add_range(layout, &(struct runtime_range){
			      .start = start, .end = end, .data = PHP_RANGE_LOOP, .in_file = true});
}

static void add_code_memory(const struct runtime_process *process, struct runtime_layout *layout)
{
	const struct php_image *image = process->image;
	const struct runtime_code_memory *memory = process->code_memory;

	for (unsigned int i = 0; memory && i < memory->count; i++) {
		const struct runtime_code_area *area = &memory->areas[i];
		struct runtime_range range = {.start = area->start, .end = area->end};

		range.in_file = area->label[0];
		range.data = range.in_file ? PHP_RANGE_JIT : PHP_RANGE_EXPRESSIONS;
		if (!range.in_file || (image->is_hybrid && may_be_compiled(area)))
			add_range(layout, &range);
	}
}

/* The globals of a process: their address, or where each thread has its own. */
struct globals {
	struct thread_key keys[THREAD_KEY_PLACES];
	uint32_t key_count;
	uint64_t address; /* or the distance, if there are keys */
};

/* Sets the layout of a process. Returns 0 or -ENOMEM. */
static int fill_layout(struct runtime_process *process, const struct globals *globals)
{
	const struct php_image *image = process->image;
	const struct php_offsets *o = image->offsets;
	const struct runtime_symbol *loop = &image->loop;
	struct runtime_layout *layout = &process->layout;
	const struct runtime_symbol *leave = &image->fiber_switch;
	const bool has_fibers = o->fiber && leave->size;
	struct php_block block = {
	    .key_count = globals->key_count,
	    .current = globals->address + o->current,
	    .loop_body = loop->vaddr + loop->size + process->bias,
	    .active_fiber = has_fibers ? globals->address + o->fiber : 0,
	    .fiber_caller = o->fiber_caller,
	    .switch_start = leave->vaddr + process->bias,
	    .switch_end = leave->vaddr + leave->size + process->bias,
	    .leave_start = image->leave_start + process->bias,
	    .leave_end = image->leave_end + process->bias,
	    .before_exception = globals->address + o->before_exception,
	    .frameless = image->frameless ? image->frameless + process->bias : 0,
	    .file = o->file,
	    .opcodes = o->opcodes,
	    .last = o->last,
	    .generator_call = o->generator_call,
	    .generator_placeholder = o->generator_placeholder,
	    .generator_parent = o->generator_parent,
	};

	memcpy(block.keys, globals->keys, sizeof(block.keys));
	if (!process->state)
		process->state = name_cache_new();
	if (!process->state)
		return -ENOMEM;
	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->block, &block, sizeof(block));
	add_loop(layout, loop->vaddr + process->bias, loop->vaddr + loop->size + process->bias);
	if (image->unlikely.end)
		add_loop(layout, image->unlikely.start + process->bias,
			 image->unlikely.end + process->bias);
	process->follows_code_memory = true;
	add_code_memory(process, layout);
	return 0;
}

static int php_attach(struct runtime_process *process)
{
	const struct php_image *image = process->image;
	struct globals globals = {0};
	uint32_t key = 0;
	int r = runtime_variable_address(&image->globals, process->memory, process->bias,
					 &globals.address);

	if (!r && image->key) {
		r = memory_read_u64(process->memory, globals.address, &globals.address);
		if (!r)
			r = memory_read_u32(process->memory, image->key + process->bias, &key);
		if (!r)
			globals.key_count = thread_keys_of_number(key, globals.keys);
	}
	if (r)
		return r;
	/* Otherwise the program has not started PHP yet. */
	return globals.address && (globals.key_count || !image->key)
		   ? fill_layout(process, &globals)
		   : -EAGAIN;
}

/* Keys are made in the order in which the program starts, so the number is most likely that of the
 * other process. The walker checks what it finds by it. */
static int php_expect(struct runtime_process *process, const struct runtime_layout *known)
{
	const struct php_image *image = process->image;
	struct globals globals = {.address = image->globals.vaddr + process->bias};
	struct php_block other;

	memcpy(&other, &known->block, sizeof(other));
	if (image->key) {
		globals.address = other.current - image->offsets->current;
		globals.key_count = other.key_count;
		memcpy(globals.keys, other.keys, sizeof(globals.keys));
	}
	return fill_layout(process, &globals);
}

static int php_symbolize(struct runtime_process *process, const uint64_t *words,
			 struct named_frames *frames)
{
	const struct php_image *image = process->image;

	if (!process->state)
		return -ESTALE;
	int r = php_names_find(process->state, image->offsets, process->memory, words, frames);
	process->cached_bytes = name_cache_bytes(process->state);
	return r;
}

static void php_drop_cache(struct runtime_process *process)
{
	process->cached_bytes = 0;
	if (process->state)
		name_cache_drop(process->state);
}

static void php_detach(struct runtime_process *process)
{
	name_cache_free(process->state);
	process->state = NULL;
}

const struct runtime_ops runtime_php = {
    .recognise = php_file_recognise,
    .release = php_release,
    .attach = php_attach,
    .expect = php_expect,
    .symbolize = php_symbolize,
    .drop_cache = php_drop_cache,
    .detach = php_detach,
};
