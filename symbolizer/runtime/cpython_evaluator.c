/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the code of the bytecode evaluator, _PyEval_EvalFrameDefault.
 *
 * How this works: the walker treats a native frame as an evaluator frame if its pc is in the
 * function's code, so all of that code must be known. Three things are determined from the file:
 *
 * 1. The function itself, from its symbol.
 * 2. The part that the compiler split off as unlikely (-freorder-blocks-and-partition; the symbol
 *    _PyEval_EvalFrameDefault.cold, which stripped files lack). Debian's builds have a quarter of
 *    the function there, Alpine's nearly all. The function jumps into the middle of that part. So
 *    all direct jumps that leave the function are collected, and the functions of .eh_frame_hdr
 *    that contain their targets are counted: the most frequent one is the split part. Instructions
 *    are not decoded, so random bytes look like jumps too, but their targets do not agree.
 * 3. Before 3.11, the code in which the evaluator runs but its Python frame is not on the thread's
 *    chain of frames: the prologue, and the epilogue. There the walker must not assign a Python
 *    frame to the native one. The stores to PyThreadState.frame mark both.
 *
 * Example: _PyEval_EvalFrameDefault is 0x1000 - 0x9000. At 0x1200 is the first `mov %rax,24(%rdi)`,
 * so `before` is 0x201. At 0x8f00 is such a store, followed by `call _Py_CheckFunctionResult`,
 * `add $56,%rsp`, six pops and `ret` up to 0x8f18: so `after` is 0x7f01 - 0x7f18. 40 jumps lead
 * into 0x500 - 0x700, another entry of .eh_frame_hdr: that is the split part.
 */
#include "symbolizer/runtime/cpython_evaluator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "common/search.h"
#include "symbolizer/runtime/limits.h"

enum {
	/* The split part must be the target of this many jumps: two that agree by chance do
	 * occur. */
	SPLIT_TARGETS_MIN = 3,
	/* Alpine's function is a stub that only jumps to its split part. Then one jump is enough,
	 * if the function is small and the part is large. */
	STUB_BYTES_MAX = 4096,
	STUB_SPLIT_BYTES_MIN = 8192,
	CALL_BYTES = 5, /* of call rel32 */
	/* If no store is found near the start, this many bytes are taken to be the prologue. The
	 * first store is searched for in four times as many. Both are estimates from builds of
	 * 3.6 - 3.10. */
	PROLOGUE_BYTES = 0x90,
	FRAME_IN_THREAD = 24, /* offsetof(PyThreadState, frame), 3.6 - 3.10 (Include/pystate.h) */
	/* .eh_frame_hdr (LSB Core 5.0, 10.6.2): version, three encodings, pointer, count, table. */
	HEADER_VERSION = 1,
	HEADER_COUNT_UDATA4 = 0x03,
	HEADER_TABLE_DATAREL_SDATA4 = 0x3b,
	HEADER_BYTES = 12, /* before the table */
	HEADER_ENTRY_BYTES = 8,
};

/* A copy of .eh_frame_hdr with its table, in the only encoding that linkers write. */
struct frame_header {
	uint64_t vaddr;
	uint8_t *bytes;
	size_t length;
	uint32_t count;
};

/* Reads 4 bytes. The caller has checked that they are there. */
static uint32_t u32_at(const uint8_t *at)
{
	struct cursor c = cursor_init(at, sizeof(uint32_t));

	return cursor_u32(&c);
}

/* Reads a displacement of 4 bytes, sign-extended so that it can be added to an address. */
static uint64_t displacement_at(const uint8_t *at)
{
	return (uint64_t)(int64_t)(int32_t)u32_at(at);
}

static int header_read(const struct runtime_file *file, struct frame_header *h)
{
	const struct elf_image *image = &file->image;

	h->vaddr = image->eh_frame_hdr_vaddr;
	if (!h->vaddr ||
	    elf_image_read_vaddr(image, h->vaddr, image->eh_frame_hdr_size,
				 CPYTHON_FRAME_HEADER_BYTES_MAX, &h->bytes, &h->length) < 0)
		return -ENOENT;
	if (h->length < HEADER_BYTES || h->bytes[0] != HEADER_VERSION ||
	    h->bytes[2] != HEADER_COUNT_UDATA4 || h->bytes[3] != HEADER_TABLE_DATAREL_SDATA4)
		return -ENOENT;
	h->count = u32_at(h->bytes + 8);
	if (h->count > (h->length - HEADER_BYTES) / HEADER_ENTRY_BYTES)
		h->count = (uint32_t)((h->length - HEADER_BYTES) / HEADER_ENTRY_BYTES);
	return 0;
}

/* These two return the start of the function of a table entry, and the address of its FDE. */
static uint64_t header_start(const struct frame_header *h, uint32_t index)
{
	return h->vaddr +
	       displacement_at(h->bytes + HEADER_BYTES + (size_t)index * HEADER_ENTRY_BYTES);
}

static uint64_t header_fde(const struct frame_header *h, uint32_t index)
{
	return h->vaddr +
	       displacement_at(h->bytes + HEADER_BYTES + (size_t)index * HEADER_ENTRY_BYTES + 4);
}

/* Returns the index of the last function that starts at or before `vaddr`; h->count if there is
 * none. */
static uint32_t header_find(const struct frame_header *h, uint64_t vaddr)
{
	const size_t above = SEARCH_LOWER_BOUND(i, h->count, header_start(h, (uint32_t)i) <= vaddr);

	return above ? (uint32_t)above - 1 : h->count;
}

/* Returns the length of a function in bytes, from its FDE: length, CIE pointer, start and range.
 * The FDE's encoding is not looked up but assumed to be pcrel | sdata4, which holds if the start is
 * what the table says. Returns 0 if it is something else. */
static uint64_t header_range(const struct runtime_file *file, const struct frame_header *h,
			     uint32_t index)
{
	const uint64_t fde = header_fde(h, index);
	uint8_t bytes[16];

	if (runtime_file_read(file, fde, bytes, sizeof(bytes)) < 0)
		return 0;
	const uint64_t start = fde + 8 + displacement_at(bytes + 8);
	return start == header_start(h, index) ? u32_at(bytes + 12) : 0;
}

/* A function that may be the split part. */
struct candidate {
	uint32_t function;    /* its index in the header */
	unsigned int targets; /* jumps that lead into it */
};

/* Returns the target of a direct jump, conditional or not, with a displacement of 4 bytes, whose
 * instruction starts at code + i. `vaddr` is the address of `code`. Returns 0 if there is no such
 * jump. */
static uint64_t jump_target(const uint8_t *code, size_t length, size_t i, uint64_t vaddr)
{
	if (i + 6 <= length && code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80)
		return vaddr + i + 6 + displacement_at(code + i + 2);
	if (i + 5 <= length && code[i] == 0xe9)
		return vaddr + i + 5 + displacement_at(code + i + 1);
	return 0;
}

static void candidate_count(struct candidate *candidates, uint32_t function)
{
	for (int i = 0; i < CPYTHON_SPLIT_CANDIDATES_MAX; i++) {
		struct candidate *c = &candidates[i];

		if (c->targets && c->function != function)
			continue;
		c->function = function;
		c->targets++;
		return;
	}
}

/* Adds the split part to the image's texts, if there is one: the function that the most jumps lead
 * into. */
static void find_split_part(const struct runtime_file *file, struct cpython_image *image,
			    const uint8_t *code, size_t length)
{
	const struct cpython_text *main = &image->texts[0];
	struct candidate candidates[CPYTHON_SPLIT_CANDIDATES_MAX] = {0};
	const struct candidate *best = &candidates[0];
	struct frame_header h = {0};

	if (header_read(file, &h) == 0) {
		for (size_t i = 0; i < length; i++) {
			const uint64_t target = jump_target(code, length, i, main->start);
			const uint32_t found =
			    target && (target < main->start || target >= main->end)
				? header_find(&h, target)
				: h.count;

			if (found < h.count && header_start(&h, found) != main->start &&
			    target < header_start(&h, found) + header_range(file, &h, found))
				candidate_count(candidates, found);
		}
		for (int i = 1; i < CPYTHON_SPLIT_CANDIDATES_MAX; i++) {
			if (candidates[i].targets > best->targets)
				best = &candidates[i];
		}
		const uint64_t start = best->targets ? header_start(&h, best->function) : 0;
		const uint64_t bytes = start ? header_range(file, &h, best->function) : 0;
		const bool is_stub =
		    main->end - main->start < STUB_BYTES_MAX && bytes >= STUB_SPLIT_BYTES_MIN;

		if (bytes && (best->targets >= SPLIT_TARGETS_MIN || is_stub))
			image->texts[image->text_count++] =
			    (struct cpython_text){start, start + bytes};
	}
	free(h.bytes);
}

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
		to = at + 5 + (size_t)displacement_at(code + at + 1);
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
	size_t length;

	if (runtime_file_exported(file, "_PyEval_EvalFrameDefault", &symbol) < 0 &&
	    runtime_file_local(file, "_PyEval_EvalFrameDefault", &symbol) < 0)
		return -ENOENT;
	if (!symbol.size || elf_image_read_vaddr(&file->image, symbol.vaddr, symbol.size,
						 CPYTHON_EVALUATOR_BYTES_MAX, &code, &length) < 0)
		return -ENOENT;
	image->texts[0] = (struct cpython_text){symbol.vaddr, symbol.vaddr + symbol.size};
	image->text_count = 1;
	find_split_part(file, image, code, length);
	if (image->offsets.shape == CPYTHON_ONE_EACH)
		find_off_chain(image, code, length);
	return 0;
}
