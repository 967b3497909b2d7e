/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises CPython's file, and determines the version and its structure offsets.
 *
 * How this works: a file is CPython if it defines _PyEval_EvalFrameDefault, whatever its name. The
 * version is Py_Version (exported from 3.11 on) or follows from the symbols that the file exports.
 * Up to 3.12 the offsets are in a table in this file, and they hold for release builds only; the
 * size of a code object, which the file itself states, shows whether it is one. From 3.13 on
 * _PyRuntime starts with _Py_DebugOffsets, a table made for debuggers, and the offsets are read
 * from it.
 *
 * Example: libpython3.9.so exports _PyRuntime, PyThreadState_GetInterpreter (new in 3.9) and not
 * Py_NewRef (new in 3.10): it is 3.9. PyCode_Type.tp_basicsize is 176, as in the table. So the top
 * frame of a thread is at offset 24 of its PyThreadState.
 *
 * A file that is CPython but cannot be supported is refused, with a message. Nothing is guessed: a
 * version that is not in the tables is refused, even if its layout should happen to match.
 */
#include "symbolizer/runtime/cpython_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cursor.h"
#include "symbolizer/runtime/cpython_evaluator.h"
#include "symbolizer/runtime/cpython_image.h"
#include "symbolizer/runtime/recognise.h"

#define NONE CPYTHON_NONE

/*
 * The offsets in release builds for x86-64, from the headers of each version (Include/,
 * Include/cpython/, Include/internal/) and checked against live processes. 3.13 and later describe
 * themselves: their rows hold only what their description lacks.
 */
/* clang-format off */
static const struct cpython_offsets known_offsets[] = {
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
     .frame_previous = 48, .frame_position = 56, .frame_mark = 68,
     .first_line = 72, .version = NONE, .file = 112, .name = 120,
     .qualified_name = 128, .lines = 136, .instructions = 184, .text = 48, .wide_text = 72},
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

/* Where _Py_DebugOffsets states which offset, in bytes (Include/internal/pycore_runtime.h in 3.13,
 * pycore_debug_offsets.h in 3.14). */
struct debug_layout {
	uint16_t minor;
	uint16_t bytes; /* of the part that is read */
	uint16_t interpreters, interpreter_next, interpreter_threads;
	uint16_t thread_next, thread_id, thread_top;
	uint16_t frame_code, frame_previous, frame_position, frame_owner;
	uint16_t file, name, qualified_name, lines, first_line, instructions;
	uint16_t text;
	/* The offset of PyInterpreterState.executor_list_head, which is not in the table
	 * (pycore_interp.h in 3.13, pycore_interp_structs.h in 3.14). It is the same in 3.13.0 and
	 * 3.13.15, although the structure has grown after it. */
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
	/* Offsets in _Py_DebugOffsets: version, free_threaded, interpreter_state.size. */
	DEBUG_COOKIE_BYTES = 8, /* "xdebugpy" */
	DEBUG_VERSION = 8,
	DEBUG_FREE_THREADED = 16,
	DEBUG_INTERPRETER_BYTES = 48,
	DEBUG_BYTES_MAX = 1024, /* at least `bytes` of each debug_layouts row */
	OFFSET_MAX = 0x4000,	/* an offset of this or more is forged: no field is so far out */
	TYPE_BASIC_SIZE = 32,	/* offsetof(PyTypeObject, tp_basicsize) */
	CODE_BYTES_3_7 = 144,	/* sizeof(PyCodeObject) in 3.7; 3.8 has 176 */
	RUNTIME_BYTES = 32,	/* "CPython 3.13" */
};

static const struct cpython_offsets *offsets_of(unsigned int minor)
{
	for (size_t i = 0; i < sizeof(known_offsets) / sizeof(known_offsets[0]); i++) {
		if (known_offsets[i].minor == minor)
			return &known_offsets[i];
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

/* Returns PY_VERSION_HEX as the file states it (Py_Version, from 3.11 on) or as it follows from the
 * symbols that it exports. Returns 0 if it cannot be determined. */
static uint32_t version_of(const struct runtime_file *file, const struct cpython_image *image)
{
	uint64_t vaddr, version = 0;

	if (recognise_find(file, "Py_Version", &vaddr) &&
	    runtime_file_read(file, vaddr, &version, sizeof(version)) == 0 && version >> 24 == 3)
		return (uint32_t)version;
	if (!image->runtime)
		return image->holder ? 0x03060000 : 0;
	uint64_t code_bytes = 0;
	if (runtime_file_read(file, image->code_type + TYPE_BASIC_SIZE, &code_bytes,
			      sizeof(code_bytes)) < 0)
		return 0;
	if (recognise_has(file, "python", "Py_NewRef"))
		return 0x030a0000;
	if (recognise_has(file, "python", "PyThreadState_GetInterpreter"))
		return 0x03090000;
	return code_bytes == CODE_BYTES_3_7 ? 0x03070000 : 0x03080000;
}

/* Writes the message. Returns -ENOTSUP. */
static int refuse(struct runtime_refusal *refusal, const struct runtime_file *file,
		  uint32_t version, const char *why)
{
	char runtime[RUNTIME_BYTES];

	snprintf(runtime, sizeof(runtime), "CPython %u.%u", version >> 24, minor_of(version));
	return recognise_refuse(refusal, file->path, runtime, "Python frames", why);
}

/* Reads one offset of _Py_DebugOffsets: a value of 8 bytes at `at` of the table. */
static bool debug_offset(const uint8_t *table, size_t length, uint16_t at, uint16_t *to)
{
	struct cursor c = cursor_init(table, length);

	cursor_seek(&c, at);
	const uint64_t value = cursor_u64(&c);
	if (c.failed || value >= OFFSET_MAX)
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

/* Returns whether a field is among the words of a code object that the walker reads. */
static bool in_code_words(uint16_t offset, unsigned int align)
{
	return offset >= CPYTHON_CODE_FIRST && !(offset % align) &&
	       offset + 8 <= CPYTHON_CODE_FIRST + CPYTHON_CODE_WORDS * 8;
}

/* Checks what the walker (bpf/runtime/cpython.bpf.c) relies on: the fields are aligned, and in the
 * words that it reads. It reads 13 words of a PyFrameObject from offset 24 on, and up to 128 bytes
 * of the frames of later versions. Only offsets that were read from the file can fail. */
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

/* Sets the offsets of the executor lists. Only a build with a JIT compiler exports _Py_GetExecutor
 * (Python/optimizer.c). 3.14 has executor_deletion_list_head after executor_list_head. */
static void find_executors(const struct runtime_file *file, struct cpython_image *image,
			   const struct debug_layout *layout, const uint8_t *table)
{
	struct cursor c = cursor_init(table, layout->bytes);

	cursor_seek(&c, DEBUG_INTERPRETER_BYTES);
	const uint64_t bytes = cursor_u64(&c);
	if (c.failed || bytes < layout->executors + 16u ||
	    !recognise_has(file, "python", "_Py_GetExecutor"))
		return;
	image->executors = layout->executors;
	if (layout->minor >= 14)
		image->removed_executors = layout->executors + 8;
}

/* Reads _Py_DebugOffsets, which is the first member of _PyRuntime from 3.13 on. */
static int read_debug_offsets(const struct runtime_file *file, struct cpython_image *image,
			      struct runtime_refusal *refusal)
{
	const struct debug_layout *layout = debug_layout_of(minor_of(image->version));
	uint8_t table[DEBUG_BYTES_MAX];
	struct cursor c = cursor_init(table, sizeof(table));

	if (!layout || runtime_file_read(file, image->runtime, table, layout->bytes) < 0 ||
	    memcmp(table, "xdebugpy", DEBUG_COOKIE_BYTES) != 0)
		return refuse(refusal, file, image->version,
			      "_PyRuntime has no table of debug offsets");
	cursor_seek(&c, DEBUG_VERSION);
	const uint64_t version = cursor_u64(&c);
	cursor_seek(&c, DEBUG_FREE_THREADED);
	if (cursor_u64(&c))
		return refuse(refusal, file, image->version,
			      "free-threaded builds are not supported");
	if (version >> 16 != image->version >> 16 ||
	    !debug_offsets(table, layout->bytes, layout, &image->offsets))
		return refuse(refusal, file, image->version,
			      "its debug offsets are not those of this version");
	find_executors(file, image, layout, table);
	return 0;
}

/* Checks that the structures are those of a release build, by the size of code objects. They are
 * larger with Py_TRACE_REFS, which Py_DEBUG implied before 3.8, and with other options. A file that
 * does not state the size (0) is not checked. */
static int check_build(const struct runtime_file *file, const struct cpython_image *image,
		       struct runtime_refusal *refusal)
{
	uint64_t code_bytes = 0;

	if (runtime_file_read(file, image->code_type + TYPE_BASIC_SIZE, &code_bytes,
			      sizeof(code_bytes)) < 0)
		return 0;
	/* From 3.11 on tp_basicsize is the offset of the bytecode, co_code_adaptive. */
	if (code_bytes && code_bytes != (image->offsets.instructions ? image->offsets.instructions
								     : image->offsets.code_bytes))
		return refuse(refusal, file, image->version,
			      "not a release build, its code objects have another size");
	return 0;
}

/* Finds the variables that lead to the threads. From 3.7 on they are members of _PyRuntime. In 3.6
 * the head of the list of interpreters is a static variable, so in a stripped file only the thread
 * that holds the GIL can be found. */
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

/* Fills in everything but the symbols that cpython_file_recognise() has looked up. */
static int describe(const struct runtime_file *file, struct cpython_image *image,
		    struct runtime_refusal *refusal)
{
	image->version = version_of(file, image);
	const struct cpython_offsets *offsets = offsets_of(minor_of(image->version));
	int r = 0;

	if (image->version >> 24 != 3 || !offsets)
		return refuse(refusal, file, image->version, "this version is not supported");
	image->offsets = *offsets;
	if (offsets->minor >= 13)
		r = read_debug_offsets(file, image, refusal);
	if (!r)
		r = check_build(file, image, refusal);
	if (r < 0)
		return r;
	if (!offsets_plausible(&image->offsets))
		return refuse(refusal, file, image->version,
			      "its structure offsets are not plausible");
	find_globals(file, image);
	image->line_format = offsets->minor < 10    ? CPYTHON_LNOTAB
			     : offsets->minor == 10 ? CPYTHON_LINETABLE
						    : CPYTHON_LOCATIONS;
	if (cpython_evaluator_find(file, image) < 0)
		return refuse(refusal, file, image->version,
			      "its evaluator function was not found");
	return 0;
}

int cpython_file_recognise(const struct runtime_file *file, void **image,
			   struct runtime_refusal *refusal)
{
	if (!recognise_has(file, "python", "_PyEval_EvalFrameDefault"))
		return -ENOENT;
	struct cpython_image *found = calloc(1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	if (!recognise_find(file, "_PyRuntime", &found->runtime))
		recognise_find(file, "_PyThreadState_Current", &found->holder);
	int r = recognise_find(file, "PyCode_Type", &found->code_type)
		    ? describe(file, found, refusal)
		    : -ENOENT;
	if (r < 0) {
		free(found);
		return r;
	}
	*image = found;
	return 0;
}
