/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of generated code, from ELF images in the memory of a process. A process keeps them for
 * debuggers (the interface of GDB for JIT compilers): LLVM does if the program asks for it, and
 * with it numba (llvmlite), PostgreSQL and many others. Wasmtime, which has that interface, too,
 * has the code itself in such images.
 *
 * How this works. When the first address is to be named, all images are listed
 * (jit_debug_list.h), with where their code is. Of the image with the address, the tables are
 * copied (parse/jit_image.h). A namer finds functions, lines and inlined functions in its debug
 * information, if it has any; otherwise the symbol gives the name. The copies that were used last
 * are kept.
 *
 * A process may remove an image, free its code, and generate other code there. So once per second
 * while the process is sampled, the copies are compared with the images. If one is not there any
 * more, or has changed, its names count no longer (names_changed). A frame may have the name of
 * code that was replaced a second or two ago, as with maps of generated code
 * (symbolizer/worker/jit_maps.h).
 *
 * Example: lli (pid 42) runs a program with one module. Its list has one entry: 4,880 bytes at
 * 0x557d22a77820, for the code from 0x7f36bd882000 to 0x7f36bd8820d9. The frame 0x7f36bd882032 is
 * mix (burn.c:8), inlined into inner (burn.c:14).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/frame_kind.h"
#include "common/time_units.h"
#include "parse/jit_image.h"
#include "symbolizer/namer/namer.h"
#include "symbolizer/runtime/jit_debug_list.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/recognise.h"
#include "symbolizer/runtime/runtime.h"

enum {
	REFRESH_MS = 1000,
	/* For an address that is in no image, the list is read again after this time, and after
	 * this many times as long as reading has taken. */
	MISS_MS = 5,
	MISS_PAUSE = 20,
	/* The list of a process that was not asked for a name for this long is not read again. */
	IDLE_MS = 10000,
	/* Parts of a lookup in debug information, of some milliseconds, before others have their
	 * turn. */
	LOOKUP_PARTS = 4,
	NAME_BYTES_MAX = 1024,
};

/* The copy of an image. */
struct jit_debug_image {
	bool is_readable; /* otherwise nothing else is set, and its code has no names */
	struct jit_image image;
	struct namer namer;
	uint64_t used; /* by state->clock */
};

struct jit_debug_state {
	struct jit_debug_list list;
	unsigned int image_count;
	uint64_t clock;	   /* counts uses of images */
	uint64_t asked_ns; /* when a name was asked for last; 0: never */
	uint64_t read_ns;  /* when the list was read last; 0: never */
	uint64_t took_ns;  /* how long that took */
	bool is_complete;  /* to its end */
	bool missed;	   /* an address was in no image, or in none that could be read */
};

/* --- the file, of which the descriptor is kept --- */

static const char descriptor_name[] = "__jit_debug_descriptor";
static const char function_name[] = "__jit_debug_register_code";

/* Finds the descriptor among the symbols that are not exported: llvmlite contains LLVM, and hides
 * what it has of it. */
static bool find_local(const struct runtime_file *file, struct runtime_variable *variable)
{
	struct runtime_symbol descriptor, function;

	if (!elf_lookup_may_have_local(&file->symbols, descriptor_name) ||
	    runtime_file_local(file, descriptor_name, &descriptor) < 0 ||
	    runtime_file_local(file, function_name, &function) < 0)
		return false;
	*variable = (struct runtime_variable){.vaddr = descriptor.vaddr};
	return true;
}

static bool find_exported(const struct runtime_file *file, struct runtime_variable *variable)
{
	struct runtime_symbol function;

	return runtime_file_variable(file, descriptor_name, variable) == 0 &&
	       runtime_file_exported(file, function_name, &function) == 0;
}

static int jit_debug_recognise(const struct runtime_file *file, void **image,
			       struct runtime_refusal *refusal)
{
	struct runtime_variable found;

	(void)refusal;
	if (!find_exported(file, &found) && !find_local(file, &found))
		return -ENOENT;
	struct runtime_variable *made = malloc(sizeof(*made));
	if (!made)
		return -ENOMEM;
	*made = found;
	*image = made;
	return 0;
}

static void jit_debug_release(void *image)
{
	free(image);
}

/* --- copies of images --- */

static void image_free(struct jit_debug_image *image)
{
	namer_close(&image->namer);
	if (image->is_readable)
		jit_image_fini(&image->image);
	free(image);
}

static void entry_drop(struct jit_debug_state *state, struct jit_debug_entry *entry)
{
	image_free(entry->named);
	entry->named = NULL;
	state->image_count--;
}

static void drop_least_used(struct jit_debug_state *state)
{
	struct jit_debug_entry *least = NULL;

	for (size_t i = 0; i < state->list.count; i++) {
		struct jit_debug_entry *entry = &state->list.entries[i];

		if (entry->named && (!least || entry->named->used < least->named->used))
			least = entry;
	}
	if (least)
		entry_drop(state, least);
}

static void count_cache(struct runtime_process *process)
{
	const struct jit_debug_state *state = process->state;

	process->cached_bytes = state->list.capacity * sizeof(state->list.entries[0]);
	for (size_t i = 0; i < state->list.count; i++) {
		const struct jit_debug_image *image = state->list.entries[i].named;

		if (image)
			process->cached_bytes += sizeof(*image) + namer_bytes(&image->namer) +
						 jit_image_bytes(&image->image);
	}
}

/* Returns the copy of an image, which is made if there is none. NULL: it cannot be read now. */
static struct jit_debug_image *entry_image(struct runtime_process *process,
					   struct jit_debug_entry *entry)
{
	struct jit_debug_state *state = process->state;
	struct jit_debug_place place = {.memory = process->memory, .address = entry->image};
	const struct elf_source source = jit_debug_source(&place, entry->image_size);
	struct jit_debug_image *image = entry->named;

	if (image)
		return image;
	if (state->image_count == JIT_DEBUG_IMAGES_MAX)
		drop_least_used(state);
	image = calloc(1, sizeof(*image));
	if (!image)
		return NULL;
	const int r = jit_image_init(&image->image, &source, jit_debug_base(entry),
				     JIT_DEBUG_IMAGE_BYTES_MAX);
	if (r == -ENOMEM || place.error ||
	    (r == 0 && namer_open(&image->namer, &image->image.elf) < 0)) {
		image->is_readable = r == 0;
		image_free(image);
		return NULL;
	}
	image->is_readable = r == 0;
	entry->named = image;
	state->image_count++;
	return image;
}

/* --- the list --- */

struct drops {
	struct jit_debug_state *state;
	bool any;
};

static void on_removed(void *context, struct jit_debug_entry *entry)
{
	struct drops *drops = context;

	entry_drop(drops->state, entry);
	drops->any = true;
}

/* Compares the copy of an entry with its image. Returns 0: they are equal, or nothing was copied;
 * -ESTALE: they differ; or an error after which nothing more can be read. */
static int entry_compare(const struct runtime_process *process, const struct jit_debug_entry *entry)
{
	struct jit_debug_place place = {.memory = process->memory, .address = entry->image};
	const struct elf_source source = jit_debug_source(&place, entry->image_size);

	if (!entry->named || !entry->named->is_readable ||
	    jit_image_is_same(&entry->named->image, &source))
		return 0;
	return place.error ? place.error : -ESTALE;
}

/* Drops the copies whose images have changed. */
static void drop_changed(const struct runtime_process *process, struct drops *drops)
{
	for (size_t i = 0; i < drops->state->list.count; i++) {
		struct jit_debug_entry *entry = &drops->state->list.entries[i];

		if (entry_compare(process, entry) == -ESTALE)
			on_removed(drops, entry);
	}
}

static int find_descriptor(const struct runtime_process *process, uint64_t *descriptor)
{
	return runtime_variable_address(process->image, process->memory, process->bias, descriptor);
}

static int read_list(struct runtime_process *process, uint64_t now)
{
	struct jit_debug_state *state = process->state;
	struct drops drops = {.state = state};
	uint64_t descriptor;
	int r = find_descriptor(process, &descriptor);

	if (r < 0)
		return r;
	r = jit_debug_list_read(&state->list, process->memory, descriptor, process->code_memory,
				on_removed, &drops);
	if (r >= 0)
		drop_changed(process, &drops);
	state->read_ns = now;
	state->took_ns = clock_monotonic_ns() - now;
	state->is_complete = r >= 0;
	if (drops.any || (state->missed && r > 0))
		process->names_changed++;
	state->missed &= r <= 0;
	return r < 0 ? r : 0;
}

/* Returns whether the images from which names came are still there, so that the list need not be
 * read: that of a large program has thousands of others. */
static bool names_are_current(struct runtime_process *process)
{
	const struct jit_debug_state *state = process->state;
	uint64_t descriptor;

	if (!state->is_complete || state->missed || find_descriptor(process, &descriptor) < 0)
		return false;
	for (size_t i = 0; i < state->list.count; i++) {
		const struct jit_debug_entry *entry = &state->list.entries[i];

		if (entry->named && (!jit_debug_list_has(process->memory, descriptor,
							 process->code_memory, entry) ||
				     entry_compare(process, entry) < 0))
			return false;
	}
	return true;
}

/* Reads the list with half of the budget, so that an image can be copied, however long the list
 * is. */
static int read_list_in_part(struct runtime_process *process, uint64_t now)
{
	struct memory *memory = process->memory;
	const unsigned int reads = memory->reads_left / 2;
	const size_t bytes = memory->bytes_left / 2;

	memory->reads_left -= reads;
	memory->bytes_left -= bytes;
	const int r = read_list(process, now);
	memory->reads_left += reads;
	memory->bytes_left += bytes;
	return r;
}

static int jit_debug_attach(struct runtime_process *process)
{
	if (!process->state)
		process->state = calloc(1, sizeof(struct jit_debug_state));
	if (!process->state)
		return -ENOMEM;
	const struct jit_debug_state *state = process->state;
	const uint64_t now = clock_monotonic_ns();

	process->refresh_ms = REFRESH_MS;
	process->follows_code_memory = true;
	if (!state->asked_ns || now - state->asked_ns > IDLE_MS * NS_PER_MS)
		return 0;
	const int r = names_are_current(process) ? 0 : read_list(process, now);
	count_cache(process);
	if (r == -ENOTSUP)
		recognise_refuse(&process->refusal, process->path, "the JIT debug interface",
				 "names", "its version is not supported");
	return r;
}

/* --- names --- */

/* Looks the address up in the debug information. Returns 0; -ENOENT; or -EBUSY. */
static int name_by_debug(struct jit_debug_image *image, uint64_t address,
			 struct named_frames *frames)
{
	const struct namer_sources sources = {.file = &image->image.elf.source};

	for (int i = 0; i < LOOKUP_PARTS; i++) {
		const int r = namer_name(&image->namer, &sources, address, frames);

		/* There are no further files. */
		if (r == -EINPROGRESS || namer_wanted(&image->namer))
			namer_do_without(&image->namer);
		else if (r != -EAGAIN)
			return r;
	}
	return -EBUSY;
}

/* Names the function by its symbol if debug information says only the line, or nothing. */
static int complete_by_symbol(const struct jit_debug_image *image, uint64_t address,
			      struct named_frames *frames)
{
	struct named_frame *outermost = &frames->frames[frames->count ? frames->count - 1 : 0];

	if (frames->count && outermost->function[0])
		return 0;
	const char *name = jit_image_find_name(&image->image, address);
	if (!name)
		return -ENOENT;
	if (!frames->count) {
		*outermost = (struct named_frame){.file = ""};
		frames->count = 1;
	}
	outermost->function = named_frames_keep(frames, name, strnlen(name, NAME_BYTES_MAX));
	outermost->mangled = true;
	return 0;
}

static int image_name(struct jit_debug_image *image, uint64_t address, struct named_frames *frames)
{
	const int r = name_by_debug(image, address, frames);

	if (r == -EBUSY)
		return r;
	if (r < 0)
		frames->count = 0;
	frames->kind = FRAME_KIND_NATIVE;
	return complete_by_symbol(image, address, frames);
}

/* Names an address by the first image that knows it. */
static int find_name(struct runtime_process *process, uint64_t address, struct named_frames *frames)
{
	struct jit_debug_state *state = process->state;
	struct jit_debug_entry *entry = NULL;

	while ((entry = jit_debug_list_find(&state->list, address, entry))) {
		struct jit_debug_image *image = entry_image(process, entry);

		if (!image)
			return -EBUSY;
		image->used = ++state->clock;
		const int r = image->is_readable ? image_name(image, address, frames) : -ENOENT;
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}

/* Returns whether the list may be read again because an address is in no image. */
static bool may_read_again(const struct jit_debug_state *state, uint64_t now)
{
	return now - state->read_ns >= MISS_MS * NS_PER_MS + MISS_PAUSE * state->took_ns;
}

static int jit_debug_symbolize(struct runtime_process *process, const uint64_t *words,
			       struct named_frames *frames)
{
	struct jit_debug_state *state = process->state;
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	const uint64_t now = clock_monotonic_ns();

	if (!state)
		return -ENOENT;
	state->asked_ns = now;
	int r = find_name(process, address, frames);
	if (r == -ENOENT && may_read_again(state, now)) {
		/* Even if it was not read to its end, it may have the image. */
		const int error = read_list_in_part(process, now);

		r = find_name(process, address, frames);
		if (r == -ENOENT && error == -EDQUOT)
			r = -EBUSY;
	}
	state->missed |= r == -ENOENT || r == -EBUSY;
	count_cache(process);
	return r;
}

static void jit_debug_drop_cache(struct runtime_process *process)
{
	struct jit_debug_state *state = process->state;

	for (size_t i = 0; state && i < state->list.count; i++) {
		if (state->list.entries[i].named)
			entry_drop(state, &state->list.entries[i]);
	}
	if (state) {
		free(state->list.entries);
		state->list = (struct jit_debug_list){0};
		state->read_ns = 0;
		state->is_complete = false;
	}
	process->cached_bytes = 0;
}

static void jit_debug_detach(struct runtime_process *process)
{
	jit_debug_drop_cache(process);
	free(process->state);
	process->state = NULL;
}

const struct runtime_ops runtime_jit_debug = {
    .only_names = true,
    .recognise = jit_debug_recognise,
    .release = jit_debug_release,
    .attach = jit_debug_attach,
    .symbolize = jit_debug_symbolize,
    .drop_cache = jit_debug_drop_cache,
    .detach = jit_debug_detach,
};
