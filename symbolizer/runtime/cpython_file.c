/* SPDX-License-Identifier: Apache-2.0 */
/* CPython's file: which version it is, and what lies where in that version's structures. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/cpython.h"

#define NONE CPYTHON_NONE

/*
 * From the headers of each version (Include/, Include/internal/, release builds, x86-64), checked
 * against live processes. 3.13 and later describe themselves: their lines hold what they do not
 * say.
 */
/* clang-format off */
static const struct cpython_offsets known[] = {
    {.minor = 6, .shape = CPYTHON_ONE_EACH, .runtime_holder = NONE, .runtime_interpreters = NONE,
     .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_id = 152,
     .thread_top = 24, .frame_code = 32, .frame_previous = 24, .frame_position = 120,
     .code_bytes = 144, .first_line = 36, .version = NONE, .file = 96, .name = 104,
     .qualified_name = NONE, .lines = 112, .text = 48, .wide_text = 72},
    {.minor = 7, .shape = CPYTHON_ONE_EACH, .runtime_holder = 1480, .runtime_interpreters = 24,
     .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_id = 176,
     .thread_top = 24, .frame_code = 32, .frame_previous = 24, .frame_position = 104,
     .code_bytes = 144, .first_line = 36, .version = NONE, .file = 96, .name = 104,
     .qualified_name = NONE, .lines = 112, .text = 48, .wide_text = 72},
    {.minor = 8, .shape = CPYTHON_ONE_EACH, .runtime_holder = 1368, .runtime_interpreters = 32,
     .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_id = 176,
     .thread_top = 24, .frame_code = 32, .frame_previous = 24, .frame_position = 104,
     .code_bytes = 176, .first_line = 40, .version = NONE, .file = 104, .name = 112,
     .qualified_name = NONE, .lines = 120, .text = 48, .wide_text = 72},
    {.minor = 9, .shape = CPYTHON_ONE_EACH, .runtime_holder = 568, .runtime_interpreters = 32,
     .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_id = 176,
     .thread_top = 24, .frame_code = 32, .frame_previous = 24, .frame_position = 104,
     .code_bytes = 176, .first_line = 40, .version = NONE, .file = 104, .name = 112,
     .qualified_name = NONE, .lines = 120, .text = 48, .wide_text = 72},
    {.minor = 10, .shape = CPYTHON_ONE_EACH, .runtime_holder = 568, .runtime_interpreters = 32,
     .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_id = 176,
     .thread_top = 24, .frame_code = 32, .frame_previous = 24, .frame_position = 96,
     .code_bytes = 176, .first_line = 40, .version = NONE, .file = 104, .name = 112,
     .qualified_name = NONE, .lines = 120, .text = 48, .wide_text = 72},
    {.minor = 11, .shape = CPYTHON_CFRAME, .runtime_holder = 576, .runtime_interpreters = 40,
     .interpreter_next = 0, .interpreter_threads = 16, .thread_next = 8, .thread_id = 152,
     .thread_top = 56, .cframe_frame = 8, .cframe_previous = 16, .frame_code = 32,
     .frame_previous = 48, .frame_position = 56, .frame_mark = 68,      .first_line = 72, .version = NONE, .file = 112, .name = 120, .qualified_name = 128,
     .lines = 136, .instructions = 184, .text = 48, .wide_text = 72},
    {.minor = 12, .shape = CPYTHON_CFRAME, .runtime_holder = NONE, .runtime_interpreters = 40,
     .interpreter_next = 0, .interpreter_threads = 72, .thread_next = 8, .thread_id = 136,
     .thread_top = 56, .cframe_frame = 0, .cframe_previous = 8, .frame_code = 0,
     .frame_previous = 8, .frame_position = 56, .frame_mark = 70, .shim_owner = 3,
     .first_line = 68, .version = 92, .file = 112, .name = 120,
     .qualified_name = 128, .lines = 136, .instructions = 192, .text = 40, .wide_text = 56},
    {.minor = 13, .shape = CPYTHON_SHIM, .runtime_holder = NONE, .shim_owner = 3, .version = 92,
     .wide_text = 56},
    {.minor = 14, .shape = CPYTHON_SHIM, .runtime_holder = NONE, .shim_owner = 3, .version = 92,
     .wide_text = 56},
};
/* clang-format on */

/* _Py_DebugOffsets (Include/internal/pycore_runtime.h 3.13, pycore_debug_offsets.h 3.14): where in
 * it what is said, in bytes. */
struct debug_layout {
	uint16_t minor;
	uint16_t bytes;
	uint16_t interpreters, interpreter_next, interpreter_threads;
	uint16_t thread_next, thread_id, thread_top;
	uint16_t frame_code, frame_previous, frame_position, frame_owner;
	uint16_t file, name, qualified_name, lines, first_line, instructions;
	uint16_t text;
	/* PyInterpreterState.executor_list_head (pycore_interp.h 3.13, pycore_interp_structs.h
	 * 3.14; the same in 3.13.0 and 3.13.15, though the structure has grown behind it). */
	uint32_t executors;
};

/* clang-format off */
static const struct debug_layout debug_layouts[] = {
    {.minor = 13, .bytes = 584, .interpreters = 40, .interpreter_next = 64,
     .interpreter_threads = 72, .thread_next = 168, .thread_id = 192, .thread_top = 184,
     .frame_code = 240, .frame_previous = 232, .frame_position = 248, .frame_owner = 264,
     .file = 280, .name = 288, .qualified_name = 296, .lines = 304,
     .first_line = 312, .instructions = 344, .text = 560, .executors = 193112},
    {.minor = 14, .bytes = 760, .interpreters = 40, .interpreter_next = 64,
     .interpreter_threads = 72, .thread_next = 192, .thread_id = 216, .thread_top = 208,
     .frame_code = 264, .frame_previous = 256, .frame_position = 272, .frame_owner = 288,
     .file = 320, .name = 328, .qualified_name = 336, .lines = 344,
     .first_line = 352, .instructions = 384, .text = 640, .executors = 223192},
};
/* clang-format on */

enum {
	DEBUG_COOKIE_BYTES = 8,
	DEBUG_VERSION = 8,
	DEBUG_FREE_THREADED = 16,
	DEBUG_INTERPRETER_BYTES = 48,
	DEBUG_BYTES_MAX = 1024,
	OFFSET_MAX = 0x4000,
	TYPE_BASIC_SIZE = 32, /* tp_basicsize in a type object */
};

#define NATIVE_ONLY "its frames stay native"

static const struct cpython_offsets *offsets_of(unsigned int minor)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].minor == minor)
			return &known[i];
	}
	return NULL;
}

static const struct debug_layout *debug_layout_of(unsigned int minor)
{
	for (size_t i = 0; i < sizeof(debug_layouts) / sizeof(debug_layouts[0]); i++) {
		if (debug_layouts[i].minor == minor)
			return &debug_layouts[i];
	}
	return NULL;
}

static unsigned int minor_of(uint32_t version)
{
	return version >> 16 & 0xff;
}

static int find(const struct runtime_file *file, const char *name, uint64_t *vaddr)
{
	struct runtime_symbol symbol;
	int r = runtime_file_exported(file, name, &symbol);

	if (r < 0 && !file->dynamic_symbols)
		r = runtime_file_local(file, name, &symbol);
	if (!r)
		*vaddr = symbol.vaddr;
	return r;
}

static bool has(const struct runtime_file *file, const char *name)
{
	uint64_t vaddr;

	return find(file, name, &vaddr) == 0;
}

/* The version that the file says of itself (3.11 on: Py_Version), or what follows from what it
 * exports. 0: none that we know how to tell. */
static uint32_t version_of(const struct runtime_file *file, const struct cpython_image *image)
{
	uint64_t vaddr, version = 0;

	if (find(file, "Py_Version", &vaddr) == 0 &&
	    runtime_file_read(file, vaddr, &version, sizeof(version)) == 0 && version >> 24 == 3)
		return (uint32_t)version;
	if (!image->runtime)
		return image->holder ? 0x03060000 : 0;
	uint64_t code_bytes = 0;
	if (runtime_file_read(file, image->code_type + TYPE_BASIC_SIZE, &code_bytes,
			      sizeof(code_bytes)) < 0)
		return 0;
	if (has(file, "Py_NewRef"))
		return 0x030a0000;
	if (has(file, "PyThreadState_GetInterpreter"))
		return 0x03090000;
	return code_bytes == 144 ? 0x03070000 : 0x03080000;
}

static int refuse(char refusal[RUNTIME_REFUSAL_BYTES], const struct runtime_file *file,
		  uint32_t version, const char *why)
{
	snprintf(refusal, RUNTIME_REFUSAL_BYTES, "CPython %u.%u in %.160s: %s; " NATIVE_ONLY,
		 version >> 24, minor_of(version), file->path, why);
	return -ENOTSUP;
}

/* One offset that the runtime says of itself. */
static bool debug_offset(const uint8_t *table, size_t length, uint16_t at, uint16_t *to)
{
	uint64_t value;

	if ((size_t)at + sizeof(value) > length)
		return false;
	memcpy(&value, table + at, sizeof(value));
	if (value >= OFFSET_MAX)
		return false;
	*to = (uint16_t)value;
	return true;
}

static bool debug_offsets(const uint8_t *t, size_t n, const struct debug_layout *layout,
			  struct cpython_offsets *o)
{
	return debug_offset(t, n, layout->interpreters, &o->runtime_interpreters) &&
	       debug_offset(t, n, layout->interpreter_next, &o->interpreter_next) &&
	       debug_offset(t, n, layout->interpreter_threads, &o->interpreter_threads) &&
	       debug_offset(t, n, layout->thread_next, &o->thread_next) &&
	       debug_offset(t, n, layout->thread_id, &o->thread_id) &&
	       debug_offset(t, n, layout->thread_top, &o->thread_top) &&
	       debug_offset(t, n, layout->frame_code, &o->frame_code) &&
	       debug_offset(t, n, layout->frame_previous, &o->frame_previous) &&
	       debug_offset(t, n, layout->frame_position, &o->frame_position) &&
	       debug_offset(t, n, layout->frame_owner, &o->frame_mark) &&
	       debug_offset(t, n, layout->file, &o->file) &&
	       debug_offset(t, n, layout->name, &o->name) &&
	       debug_offset(t, n, layout->qualified_name, &o->qualified_name) &&
	       debug_offset(t, n, layout->lines, &o->lines) &&
	       debug_offset(t, n, layout->first_line, &o->first_line) &&
	       debug_offset(t, n, layout->instructions, &o->instructions) &&
	       debug_offset(t, n, layout->text, &o->text);
}

static bool in_code_words(uint16_t offset, unsigned int align)
{
	return offset >= CPYTHON_CODE_FIRST && !(offset % align) &&
	       offset + 8 <= CPYTHON_CODE_FIRST + CPYTHON_CODE_WORDS * 8;
}

/* What the walker takes for granted; fields near each other, words aligned. */
static bool offsets_plausible(const struct cpython_offsets *o)
{
	const uint16_t frame[] = {o->frame_code, o->frame_previous, o->frame_position};

	for (size_t i = 0; i < sizeof(frame) / sizeof(frame[0]); i++) {
		const bool small = o->shape == CPYTHON_ONE_EACH
				       ? frame[i] >= 24 && frame[i] < 24 + 13 * 8 - 4
				       : frame[i] < 96;

		if (!small || frame[i] % 8)
			return false;
	}
	if (o->shape != CPYTHON_ONE_EACH && (o->frame_mark >= 96 || o->text < 32 || o->text > 64))
		return false;
	return in_code_words(o->file, 8) && in_code_words(o->name, 8) &&
	       in_code_words(o->lines, 8) && in_code_words(o->first_line, 4) &&
	       (o->qualified_name == NONE || in_code_words(o->qualified_name, 8)) &&
	       o->thread_id % 8 == 0 && o->thread_top % 8 == 0 && o->instructions <= 512;
}

/* A build with a JIT compiler exports what others do not have (Python/optimizer.c). */
static void find_executors(const struct runtime_file *file, struct cpython_image *image,
			   const struct debug_layout *layout, const uint8_t *table)
{
	uint64_t bytes;

	memcpy(&bytes, table + DEBUG_INTERPRETER_BYTES, sizeof(bytes));
	if (bytes < layout->executors + 16u || !has(file, "_Py_GetExecutor"))
		return;
	image->executors = layout->executors;
	if (layout->minor >= 14)
		image->removed_executors = layout->executors + 8;
}

/* 3.13 on: the first member of _PyRuntime. */
static int read_debug_offsets(const struct runtime_file *file, struct cpython_image *image,
			      char refusal[RUNTIME_REFUSAL_BYTES])
{
	const struct debug_layout *layout = debug_layout_of(minor_of(image->version));
	uint8_t table[DEBUG_BYTES_MAX];
	uint64_t version, free_threaded;

	if (!layout || runtime_file_read(file, image->runtime, table, layout->bytes) < 0 ||
	    memcmp(table, "xdebugpy", DEBUG_COOKIE_BYTES) != 0)
		return refuse(refusal, file, image->version, "it does not describe itself");
	memcpy(&version, table + DEBUG_VERSION, sizeof(version));
	memcpy(&free_threaded, table + DEBUG_FREE_THREADED, sizeof(free_threaded));
	if (free_threaded)
		return refuse(refusal, file, image->version,
			      "a free-threaded build, which is not supported");
	if (version >> 16 != image->version >> 16 ||
	    !debug_offsets(table, layout->bytes, layout, &image->offsets))
		return refuse(refusal, file, image->version,
			      "what it says of itself is not this version's");
	find_executors(file, image, layout, table);
	return 0;
}

/* A build of the version that the table is of: with debugging or other options structures differ.
 */
static int check_build(const struct runtime_file *file, const struct cpython_image *image,
		       char refusal[RUNTIME_REFUSAL_BYTES])
{
	uint64_t code_bytes = 0;

	if (runtime_file_read(file, image->code_type + TYPE_BASIC_SIZE, &code_bytes,
			      sizeof(code_bytes)) < 0)
		return 0;
	/* From 3.11 on the bytecode follows the structure, and is not counted with it. */
	if (code_bytes && code_bytes != (image->offsets.instructions ? image->offsets.instructions
								     : image->offsets.code_bytes))
		return refuse(refusal, file, image->version,
			      "not a release build: code objects have another size");
	return 0;
}

/* Variables that are members of _PyRuntime, or before 3.7 on their own, the list's head a static
 * one: without .symtab threads are found while they hold the GIL. */
static void find_globals(const struct runtime_file *file, struct cpython_image *image)
{
	const struct cpython_offsets *o = &image->offsets;
	struct runtime_symbol symbol;

	if (image->runtime) {
		image->interpreters = image->runtime + o->runtime_interpreters;
		if (o->runtime_holder != NONE)
			image->holder = image->runtime + o->runtime_holder;
	} else if (runtime_file_local(file, "interp_head", &symbol) == 0) {
		image->interpreters = symbol.vaddr;
	}
}

static int describe(const struct runtime_file *file, struct cpython_image *image,
		    char refusal[RUNTIME_REFUSAL_BYTES])
{
	image->version = version_of(file, image);
	const struct cpython_offsets *offsets = offsets_of(minor_of(image->version));
	int r = 0;

	if (image->version >> 24 != 3 || !offsets)
		return refuse(refusal, file, image->version, "this version is not known");
	image->offsets = *offsets;
	if (offsets->minor >= 13)
		r = read_debug_offsets(file, image, refusal);
	if (!r)
		r = check_build(file, image, refusal);
	if (r < 0)
		return r;
	if (!offsets_plausible(&image->offsets))
		return refuse(refusal, file, image->version, "its structures are not as expected");
	find_globals(file, image);
	image->line_format = offsets->minor < 10    ? CPYTHON_LNOTAB
			     : offsets->minor == 10 ? CPYTHON_LINETABLE
						    : CPYTHON_LOCATIONS;
	if (cpython_find_evaluator(file, image) < 0)
		return refuse(refusal, file, image->version, "its evaluator was not found");
	return 0;
}

/* A statically linked program without dynamic symbols: .symtab is read if its name says Python. */
static bool may_be(const struct runtime_file *file)
{
	const char *name = strrchr(file->path, '/');
	uint64_t vaddr;

	if (!file->dynamic_symbols && strncmp(name ? name + 1 : file->path, "python", 6) != 0)
		return false;
	return find(file, "_PyEval_EvalFrameDefault", &vaddr) == 0;
}

int cpython_recognise(const struct runtime_file *file, void **image,
		      char refusal[RUNTIME_REFUSAL_BYTES])
{
	if (!may_be(file))
		return -ENOENT;
	struct cpython_image *found = calloc(1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	if (find(file, "_PyRuntime", &found->runtime) < 0)
		find(file, "_PyThreadState_Current", &found->holder);
	int r = find(file, "PyCode_Type", &found->code_type);
	if (r == 0)
		r = describe(file, found, refusal);
	if (r < 0) {
		free(found);
		return r;
	}
	*image = found;
	return 0;
}
