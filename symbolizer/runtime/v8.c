/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8, the engine of Node.js: recognises a file that contains it, attaches to a process, and names
 * the frames that the walker (bpf/runtime/v8.bpf.c) pushes.
 *
 * How this works. The builtins, among them the interpreter, are a part of the file. Each isolate
 * (the main thread and each worker thread have one) reserves 512 MiB for the code that it compiles,
 * and makes parts of that executable, all at once (Node 24 and later) or page by page. This is
 * memory without a file, which the manager reports (struct runtime_code_memory). From the first
 * such area on, 512 MiB are taken for a reservation. Other compilers' code may be there, too; in
 * that the walker finds no frames of V8.
 *
 * Usually V8 also maps the builtins a second time near the end of the reservation, so that calls
 * between both are short (CodeRange::RemapEmbeddedBuiltins, src/heap/code-range.cc). It does not if
 * the heap may have less than 2 GiB (in a small container, or by --max-old-space-size), or if the
 * reservation is near the file. If V8 cannot open the file, because there is no /proc or the file
 * was replaced meanwhile, it copies the builtins into the reservation. A copy is recognised by its
 * size and by the code of InterpreterEntryTrampoline. Wherever the builtins are, the interpreter is
 * a range of its own.
 *
 * Example (Node 22): the file is mapped at 0x400000, with the builtins at 0x1d52000. There is
 * another mapping of this part at 0x7f957fe00000 - 0x7f957ffe0000, and executable memory without a
 * file at 0x7f9560003000 - 0x7f956003f000. The walker gets these ranges: compiled code at
 * 0x7f9560003000 - 0x7f957fe00000 and at 0x7f957ffdfa40 - 0x7f9580003000, and for each of the two
 * mappings InterpreterEntryTrampoline and the handlers of bytecodes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/v8.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/v8_code.h"

/* kMaximalCodeRangeSize on x86-64 (src/common/globals.h), 512 MiB in V8 11.3 to 14.6. */
#define CODE_RANGE_BYTES (512ull << 20)

enum {
	CODE_UNIT_BYTES = 256 << 10, /* AllocatePageSize() of code */
	FRAME_WORDS = 3,
	MARKED_WORDS = 2,
};

/* V8 in one process. */
struct v8 {
	struct v8_heap heap;
	struct v8_functions functions;
	struct v8_codes codes;
};

static int v8_recognise(const struct runtime_file *file, void **image,
			struct runtime_refusal *refusal)
{
	struct v8_image *found = malloc(sizeof(*found));

	if (!found)
		return -ENOMEM;
	int r = v8_image_init(found, file, refusal);
	if (r < 0) {
		free(found);
		return r;
	}
	*image = found;
	return 0;
}

static void v8_release(void *image)
{
	free(image);
}

static void add_range(struct runtime_layout *layout, uint64_t start, uint64_t end, uint32_t data,
		      bool in_file)
{
	if (layout->range_count < RUNTIME_RANGES_MAX && start < end)
		layout->ranges[layout->range_count++] = (struct runtime_range){
		    .start = start, .end = end, .data = data, .in_file = in_file};
}

/* Adds the interpreter in builtins with this bias, which are mapped from the file or a copy. */
static void add_interpreter(struct runtime_layout *layout, const struct v8_image *image,
			    uint64_t bias, bool in_file)
{
	add_range(layout, image->builtins.entry + bias, image->builtins.entry_end + bias,
		  V8_RANGE_ENTRY, in_file);
	add_range(layout, image->builtins.handlers + bias, image->builtins.end + bias,
		  V8_RANGE_HANDLERS, in_file);
}

static int compare_mappings(const void *a, const void *b)
{
	const struct runtime_mapping *first = a, *second = b;

	return first->start < second->start ? -1 : first->start > second->start;
}

/* Adds the interpreters of the mappings that contain all builtins. Returns how many they are. */
static unsigned int add_mapped(const struct runtime_process *process, struct runtime_layout *layout,
			       struct runtime_mapping *mappings)
{
	const struct v8_builtins *builtins = &((const struct v8_image *)process->image)->builtins;
	unsigned int count = 0;

	for (unsigned int i = 0; i < process->mapping_count && count < V8_ISOLATES_MAX; i++) {
		const struct runtime_mapping *m = &process->mappings[i];

		if (m->start > builtins->start + m->bias || m->end < builtins->end + m->bias)
			continue;
		add_interpreter(layout, process->image, m->bias, true);
		mappings[count++] = *m;
	}
	return count;
}

/* Returns whether a copy of the builtins starts at this address. */
static bool is_copy(const struct runtime_process *process, uint64_t start)
{
	const struct v8_image *image = process->image;
	const uint64_t entry = image->builtins.entry - image->builtins.start;
	uint8_t code[V8_ENTRY_START_BYTES];

	return memory_read(process->memory, start + entry, code, sizeof(code)) == 0 &&
	       memcmp(code, image->entry_start, sizeof(code)) == 0;
}

/* Mappings of the builtins, and after them the copies that were found. */
struct copies {
	const struct runtime_process *process;
	uint64_t bytes; /* of one, in whole pages */
	struct runtime_mapping *mappings;
	unsigned int mapped, count;
};

/* Returns whether the builtins are mapped in the reservation that begins with this area. */
static bool has_mapping(const struct copies *copies, const struct runtime_code_area *area)
{
	for (unsigned int i = 0; i < copies->mapped; i++) {
		if (copies->mappings[i].start - area->start < CODE_RANGE_BYTES)
			return true;
	}
	return false;
}

/* Adds the copy of the builtins that starts at this address, if there is one, and no other builtins
 * are there. */
static void add_copy(struct copies *copies, struct runtime_layout *layout, uint64_t start)
{
	const struct v8_image *image = copies->process->image;
	const uint64_t bias = start - image->builtins.start;

	for (unsigned int i = 0; i < copies->count; i++) {
		const struct runtime_mapping *m = &copies->mappings[i];

		if (m->start < start + copies->bytes && start < m->end)
			return;
	}
	if (copies->count == V8_ISOLATES_MAX || !is_copy(copies->process, start))
		return;
	copies->mappings[copies->count++] =
	    (struct runtime_mapping){.start = start, .end = start + copies->bytes, .bias = bias};
	add_interpreter(layout, image, bias, false);
}

/* Adds the interpreters of copies, in reservations without a mapping. V8 allocates a copy at the
 * end of a reservation, in whole units of 256 KiB (CodeRange::RemapEmbeddedBuiltins). In Node 24
 * and later, the rest of the reservation is executable, too, and in the same area. */
static void add_copies(struct copies *copies, struct runtime_layout *layout)
{
	const struct runtime_code_memory *memory = copies->process->code_memory;
	const uint64_t unit = CODE_UNIT_BYTES, allocated = (copies->bytes + unit - 1) & -unit;

	for (unsigned int i = 0; memory && i < memory->count; i++) {
		const struct runtime_code_area *area = &memory->areas[i];
		uint64_t end = area->end;

		if (area->label[0] || end - area->start < copies->bytes ||
		    has_mapping(copies, area))
			continue;
		add_copy(copies, layout, area->start);
		for (; end - area->start > allocated; end -= CODE_RANGE_BYTES) {
			add_copy(copies, layout, end - allocated);
			if (end - area->start < CODE_RANGE_BYTES)
				break;
		}
	}
}

/* Adds [start, end) without where the builtins are. */
static void add_code(struct runtime_layout *layout, const struct runtime_mapping *mappings,
		     unsigned int count, uint64_t start, uint64_t end)
{
	for (unsigned int i = 0; i < count; i++) {
		const struct runtime_mapping *m = &mappings[i];

		if (m->end <= start || m->start >= end)
			continue;
		add_range(layout, start, m->start, V8_RANGE_CODE, false);
		start = m->end;
	}
	add_range(layout, start, end, V8_RANGE_CODE, false);
}

/* Adds the reservations. A range only counts for memory without a file, and it is cut where another
 * runtime of the process has its code (runtime_slots.c). */
static void add_reservations(const struct runtime_process *process, struct runtime_layout *layout,
			     const struct runtime_mapping *mappings, unsigned int count)
{
	const struct runtime_code_memory *memory = process->code_memory;
	uint64_t start = 0, end = 0;

	for (unsigned int i = 0; memory && i < memory->count; i++) {
		const struct runtime_code_area *area = &memory->areas[i];

		if (area->label[0])
			continue;
		if (area->start >= end) {
			add_code(layout, mappings, count, start, end);
			start = area->start;
			end = start + CODE_RANGE_BYTES;
		}
		if (end < area->end)
			end = area->end;
	}
	add_code(layout, mappings, count, start, end);
}

static void fill_block(struct runtime_layout *layout, const struct v8_image *image)
{
	const struct v8_block block = {
	    .function_shared = (uint16_t)image->constants[V8_FUNCTION_SHARED],
	    .shared_script = (uint16_t)image->constants[V8_SHARED_SCRIPT],
	    .script_id = (uint16_t)image->constants[V8_SCRIPT_ID],
	    .entry_push = image->entry.push,
	    .entry_call = image->entry.call,
	    .entry_leave = image->entry.leave,
	    .entry_removed = image->entry.removed,
	    .entry_shift = image->entry.shift,
	};

	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->block, &block, sizeof(block));
}

static int v8_attach(struct runtime_process *process)
{
	struct runtime_mapping mappings[V8_ISOLATES_MAX];

	if (!process->state) {
		struct v8 *v8 = calloc(1, sizeof(*v8));

		if (!v8)
			return -ENOMEM;
		v8->heap = (struct v8_heap){.image = process->image, .memory = process->memory};
		process->state = v8;
	}
	process->follows_code_memory = true;
	fill_block(&process->layout, process->image);
	const unsigned int mapped = add_mapped(process, &process->layout, mappings);
	const struct v8_builtins *builtins = &((const struct v8_image *)process->image)->builtins;
	struct copies copies = {.process = process,
				.bytes = (builtins->end - builtins->start + MEMORY_PAGE_BYTES - 1) &
					 -(uint64_t)MEMORY_PAGE_BYTES,
				.mappings = mappings,
				.mapped = mapped,
				.count = mapped};
	add_copies(&copies, &process->layout);
	qsort(mappings, copies.count, sizeof(mappings[0]), compare_mappings);
	add_reservations(process, &process->layout, mappings, copies.count);
	/* Mappings are reported as they are made, and lead to another attach. */
	return mapped ? 0 : -EAGAIN;
}

/* Adds a frame that is shown as a fixed name in brackets. */
static int name_constant(struct named_frames *frames, const char *name)
{
	frames->frames[frames->count++] = (struct named_frame){.function = name, .file = ""};
	return 0;
}

static int name_marked(const struct v8_image *image, uint32_t type, struct named_frames *frames)
{
	if (type == image->irregexp_marker)
		return name_constant(frames, "[regular expression]");
	if (type == image->wasm_marker)
		return name_constant(frames, "[WebAssembly]");
	/* Code between JavaScript and WebAssembly, and other glue. */
	return 0;
}

static int name_interpreted(struct v8 *v8, const uint64_t *words, struct named_frames *frames)
{
	const uint32_t position = frame_word_position(words[1]);
	const uint32_t header = v8_constant(&v8->heap, V8_BYTECODE_DATA) - V8_TAG;
	struct v8_position found = {.offset = -1};
	struct v8_function *function;
	int r = v8_function_get(&v8->functions, &v8->heap, words[0] & BH_ADDRESS_MASK,
				frame_word_identity(words[1]), &function);

	if (r < 0)
		return r;
	/* The interpreter counts from the tagged address of the BytecodeArray. */
	if (position != V8_NO_POSITION && position >= header)
		found = v8_function_position(&v8->heap, function, position - header);
	if (found.offset < 0)
		found.offset = function->start;
	return v8_function_show(&v8->functions, &v8->heap, function, found.offset, frames);
}

static int name_compiled(struct v8 *v8, const uint64_t *words, bool top,
			 struct named_frames *frames)
{
	const struct v8_place place = {.pc = (words[0] & BH_ADDRESS_MASK) - !top,
				       .shared = words[2],
				       .identity = frame_word_identity(words[1])};

	return v8_code_show(&v8->codes, &v8->functions, &v8->heap, &place, frames);
}

static int v8_symbolize(struct runtime_process *process, const uint64_t *words,
			struct named_frames *frames)
{
	struct v8 *v8 = process->state;
	const unsigned int count = bh_frame_words(words[0]);
	int r = -ESTALE;

	if (!v8 || count < MARKED_WORDS)
		return -ESTALE;
	const uint32_t kind = frame_word_kind(words[1]);
	if (kind == V8_FRAME_MARKED && count == MARKED_WORDS)
		r = name_marked(process->image, frame_word_position(words[1]), frames);
	else if (kind == V8_FRAME_INTERPRETED && count == FRAME_WORDS)
		r = name_interpreted(v8, words, frames);
	else if (kind <= V8_FRAME_COMPILED_TOP && count == FRAME_WORDS)
		r = name_compiled(v8, words, kind == V8_FRAME_COMPILED_TOP, frames);
	process->cached_bytes = v8->functions.bytes + v8->functions.scripts.bytes + v8->codes.bytes;
	return r;
}

static void v8_drop_cache(struct runtime_process *process)
{
	struct v8 *v8 = process->state;

	process->cached_bytes = 0;
	if (!v8)
		return;
	v8_functions_fini(&v8->functions);
	v8_codes_fini(&v8->codes);
}

static void v8_detach(struct runtime_process *process)
{
	if (!process->state)
		return;
	v8_drop_cache(process);
	free(process->state);
	process->state = NULL;
}

const struct runtime_ops runtime_v8 = {
    .recognise = v8_recognise,
    .release = v8_release,
    .attach = v8_attach,
    .symbolize = v8_symbolize,
    .drop_cache = v8_drop_cache,
    .detach = v8_detach,
};
