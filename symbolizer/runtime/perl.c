/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perl 5.26 - 5.44: attaches to a process. It finds the interpreters and fills in the block that
 * the walker (bpf/runtime/perl.bpf.c) reads.
 *
 * How this works: Perl keeps the interpreter of a thread under a key (pthread_setspecific), whose
 * number is in a variable. The C library is not known, so the walker tries the places of the key in
 * each of them. A process is ready when it has its first interpreter, with its stacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/perl_file.h"
#include "symbolizer/runtime/perl_names.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/thread_keys.h"

static void perl_release(void *image)
{
	free(image);
}

/* Sets the layout of a process whose block has the keys already. Returns 0 or -ENOMEM. */
static int fill_layout(struct runtime_process *process, struct perl_block *b)
{
	const struct perl_image *image = process->image;
	const struct perl_offsets *o = image->offsets;
	const uint64_t bias = image->current.vaddr ? 0 : process->bias;
	struct runtime_layout *layout = &process->layout;

	if (!process->state)
		process->state = name_cache_new();
	if (!process->state)
		return -ENOMEM;
	b->files_are_globs = !image->key.vaddr;
	b->op = image->op + bias;
	b->cop = image->cop + bias;
	b->values = image->values + bias;
	b->stack = image->stack + bias;
	b->jump = image->jump + bias;
	b->stack_type = o->stack_type;
	b->context_bytes = o->context_bytes;
	b->context_sub = o->context_sub;
	b->aux_in_array = o->version < PERL_AUX_IN_BODY_SINCE;
	b->op_sort = o->op_sort;
	b->op_entersub = o->op_entersub;
	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->block, b, sizeof(*b));
	for (int i = 0; i < PERL_RUN_LOOPS; i++) {
		const struct runtime_symbol *loop = &image->run_loops[i];

		if (loop->size)
			layout->ranges[layout->range_count++] =
			    (struct runtime_range){.start = loop->vaddr + process->bias,
						   .end = loop->vaddr + loop->size + process->bias,
						   .in_file = true};
	}
	return 0;
}

/* Returns 0 if the first interpreter has its stacks, and sets *current to the address of what
 * refers to it, or to 0; -EAGAIN; or an error of memory_read(). */
static int check_interpreter(const struct runtime_process *process, uint64_t *current)
{
	const struct perl_image *image = process->image;
	uint64_t interpreter = process->bias, stack = 0, values = 0, first = 0;
	int r = 0;

	*current = 0;
	if (image->current.vaddr) {
		r = runtime_variable_address(&image->current, process->memory, process->bias,
					     current);
		if (!r)
			r = memory_read_u64(process->memory, *current, &interpreter);
	}
	if (!r && !interpreter)
		return -EAGAIN;
	if (!r)
		r = memory_read_u64(process->memory, interpreter + image->stack, &stack);
	if (!r)
		r = memory_read_u64(process->memory, interpreter + image->values, &values);
	if (!r && stack)
		r = memory_read_u64(process->memory, stack + PERL_STACK_VALUES, &first);
	return r ? r : values && values == first ? 0 : -EAGAIN;
}

static int perl_attach(struct runtime_process *process)
{
	const struct perl_image *image = process->image;
	struct perl_block block = {0};
	uint64_t key;
	uint32_t number;
	int r = check_interpreter(process, &block.current);

	if (!r && image->key.vaddr) {
		r = runtime_variable_address(&image->key, process->memory, process->bias, &key);
		if (!r)
			r = memory_read_u32(process->memory, key, &number);
		if (!r)
			block.key_count = thread_keys_of_number(number, block.keys);
	}
	return r ? r : fill_layout(process, &block);
}

/* The number of the key is that of the other process, because a program makes its keys in the same
 * order each time. The walker checks that what it finds there is an interpreter. */
static int perl_expect(struct runtime_process *process, const struct runtime_layout *known)
{
	const struct perl_image *image = process->image;
	struct perl_block other;

	memcpy(&other, &known->block, sizeof(other));
	struct perl_block block = {.key_count = other.key_count};
	if (image->current.vaddr)
		block.current = image->current.vaddr + process->bias;
	memcpy(block.keys, other.keys, sizeof(block.keys));
	return fill_layout(process, &block);
}

static int perl_symbolize(struct runtime_process *process, const uint64_t *words,
			  struct named_frames *frames)
{
	if (!process->state)
		return -ESTALE;
	int r = perl_names_find(process->state, process->image, process->memory, words, frames);
	process->cached_bytes = name_cache_bytes(process->state);
	return r;
}

static void perl_drop_cache(struct runtime_process *process)
{
	process->cached_bytes = 0;
	if (process->state)
		name_cache_drop(process->state);
}

static void perl_detach(struct runtime_process *process)
{
	name_cache_free(process->state);
	process->state = NULL;
}

const struct runtime_ops runtime_perl = {
    .recognise = perl_file_recognise,
    .release = perl_release,
    .attach = perl_attach,
    .expect = perl_expect,
    .symbolize = perl_symbolize,
    .drop_cache = perl_drop_cache,
    .detach = perl_detach,
};
