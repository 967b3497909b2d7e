/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the code of the bytecode evaluator, _PyEval_EvalFrameDefault.
 *
 * How this works: the walker treats a native frame as an evaluator frame if its pc is in the
 * function's code, so all of that code must be known. Three things are determined from the file:
 *
 * 1. The function itself, from its symbol.
 * 2. The part that the compiler split off (symbolizer/runtime/split_part.h). Debian's builds have a
 *    quarter of the function there, Alpine's nearly all.
 * 3. Before 3.11, the code in which the evaluator runs but its Python frame is not on the thread's
 *    chain of frames: the prologue, and the epilogue. There the walker must not assign a Python
 *    frame to the native one. The stores to PyThreadState.frame mark both.
 *
 * Example: _PyEval_EvalFrameDefault is 0x1000 - 0x9000. At 0x1200 is the first `mov %rax,24(%rdi)`,
 * so `before` is 0x201. At 0x8f00 is such a store, followed by `call _Py_CheckFunctionResult`,
 * `add $56,%rsp`, six pops and `ret` up to 0x8f18: so `after` is 0x7f01 - 0x7f18.
 */
#include "symbolizer/runtime/cpython_evaluator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/split_part.h"

enum {
	CALL_BYTES = 5, /* of call rel32 */
	/* If no store is found near the start, this many bytes are taken to be the prologue. The
	 * first store is searched for in four times as many. Both are estimates from builds of
	 * 3.6 - 3.10. */
	PROLOGUE_BYTES = 0x90,
	FRAME_IN_THREAD = 24, /* offsetof(PyThreadState, frame), 3.6 - 3.10 (Include/pystate.h) */
};

/* Returns the length of `mov %reg, 24(%base)` at `code`, a store to PyThreadState.frame; 0 if the
 * instruction is something else. With r12 as the base, which needs a SIB byte, it has 5 bytes
 * instead of 4. rsp needs one too, but the PyThreadState is never on the stack. */
static size_t store_bytes(const uint8_t *code)
{
	const bool reg_mov =
	    (code[0] & 0xfa) == 0x48 && code[1] == 0x89 && (code[2] & 0xc0) == 0x40;

	if (!reg_mov)
		return 0;
	if ((code[2] & 7) != 4)
		return code[3] == FRAME_IN_THREAD ? 4 : 0;
	return (code[0] & 1) && code[3] == 0x24 && code[4] == FRAME_IN_THREAD ? 5 : 0;
}

/* Returns the offset after the `ret` of an epilogue that starts at `at`: it adds to the stack
 * pointer and pops registers. Returns `at` itself if there is no epilogue. */
static size_t epilogue_end(const uint8_t *code, size_t length, size_t at)
{
	size_t i = at;

	while (i + 8 <= length) {
		if (code[i] == 0xc3)
			return i + 1;
		if (code[i] == 0x48 && code[i + 1] == 0x81 && code[i + 2] == 0xc4)
			i += 7; /* add $imm32, %rsp */
		else if (code[i] == 0x48 && code[i + 1] == 0x83 && code[i + 2] == 0xc4)
			i += 4; /* add $imm8, %rsp */
		else if (code[i] == 0x41 && (code[i + 1] & 0xf8) == 0x58)
			i += 2; /* pop %r8 - %r15 */
		else if ((code[i] & 0xf8) == 0x58)
			i++; /* pop */
		else
			break;
	}
	return at;
}

/* Returns the target of an unconditional direct jump at `at`, as an offset in the code; `length` if
 * there is no jump or it leaves the code. */
static size_t jump_within(const uint8_t *code, size_t length, size_t at)
{
	size_t to = length;

	if (at + 5 <= length && code[at] == 0xe9)
		to = at + 5 + (size_t)cursor_displacement(code + at + 1);
	else if (at + 2 <= length && code[at] == 0xeb)
		to = at + 2 + (size_t)(int64_t)(int8_t)code[at + 1];
	return to < length ? to : length;
}

/* Adds a range of code that runs after the Python frame was taken off the chain. */
static void after_add(struct cpython_image *image, size_t from, size_t to)
{
	for (int i = 0; i < CPYTHON_AFTERS; i++) {
		if (image->after_end[i])
			continue;
		image->after[i] = (uint32_t)from;
		image->after_end[i] = (uint32_t)to;
		return;
	}
}

/*
 * Finds the code of 3.6 - 3.10 in which the Python frame is not on the thread's chain. The first
 * store to PyThreadState.frame puts it there (`tstate->frame = f`). A store that is followed by a
 * call takes it off (`tstate->frame = f->f_back; return _Py_CheckFunctionResult(...)`,
 * Python/ceval.c), and after it there is only the epilogue, directly or through a jump.
 */
static void find_off_chain(struct cpython_image *image, const uint8_t *code, size_t length)
{
	bool stored = false;

	image->before = PROLOGUE_BYTES;
	for (size_t i = 0; i + 16 <= length; i++) {
		const size_t store = store_bytes(code + i);
		const size_t call = i + store;

		if (!store)
			continue;
		if (!stored && i < PROLOGUE_BYTES * 4) {
			image->before = (uint32_t)i + 1;
			stored = true;
		} else if (code[call] == 0xe8) {
			const size_t target = jump_within(code, length, call + CALL_BYTES);
			const size_t end = epilogue_end(code, length, call + CALL_BYTES);

			after_add(image, i + 1,
				  end > call + CALL_BYTES ? end : call + CALL_BYTES + 1);
			if (target < length)
				after_add(image, target, epilogue_end(code, length, target));
		}
	}
}

int cpython_evaluator_find(const struct runtime_file *file, struct cpython_image *image)
{
	_cleanup_free_ uint8_t *code = NULL;
	struct runtime_symbol symbol;
	struct split_part part;
	size_t length;

	if (runtime_file_exported(file, "_PyEval_EvalFrameDefault", &symbol) < 0 &&
	    runtime_file_local(file, "_PyEval_EvalFrameDefault", &symbol) < 0)
		return -ENOENT;
	if (!symbol.size || elf_image_read_vaddr(&file->image, symbol.vaddr, symbol.size,
						 CPYTHON_EVALUATOR_BYTES_MAX, &code, &length) < 0)
		return -ENOENT;
	image->texts[0] = (struct cpython_text){symbol.vaddr, symbol.vaddr + symbol.size};
	image->text_count = 1;
	if (split_part_find(file, symbol.vaddr, code, length, &part))
		image->texts[image->text_count++] = (struct cpython_text){part.start, part.end};
	if (image->offsets.shape == CPYTHON_ONE_EACH)
		find_off_chain(image, code, length);
	return 0;
}
