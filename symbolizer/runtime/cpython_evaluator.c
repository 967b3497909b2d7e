/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of _PyEval_EvalFrameDefault: the function's own, the part that the compiler has split
 * off as unlikely (Debian: a quarter of it; Alpine: nearly all), and, before 3.11, the places in it
 * where the frame that it evaluates is not on the chain.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "symbolizer/runtime/cpython.h"

enum {
	CODE_BYTES_MAX = 512 << 10,
	HEADER_BYTES_MAX = 8 << 20,
	CANDIDATES = 32,
	TARGETS_LEAST = 3,     /* jumps that agree; bytes that look like one are not rare */
	SPLIT_MAIN_MAX = 4096, /* a function that is but the begin of its split part */
	SPLIT_BYTES_LEAST = 8192,
	CALL_BYTES = 5,
	PROLOGUE_BYTES = 0x90,
	FRAME_IN_THREAD = 24, /* PyThreadState.frame, 3.6 - 3.10 */
};

/* .eh_frame_hdr with its table (LSB Core 5.0, 10.6.2), of the only shape that linkers write. */
struct frame_header {
	uint64_t vaddr;
	uint8_t *bytes;
	size_t length;
	uint32_t count;
};

static uint32_t u32_at(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int header_read(const struct runtime_file *file, struct frame_header *h)
{
	const struct elf_image *image = &file->image;

	h->vaddr = image->eh_frame_hdr_vaddr;
	if (!h->vaddr || elf_image_read_vaddr(image, h->vaddr, image->eh_frame_hdr_size,
					      HEADER_BYTES_MAX, &h->bytes, &h->length) < 0)
		return -ENOENT;
	/* Version 1, count as udata4, table as datarel | sdata4. */
	if (h->length < 12 || h->bytes[0] != 1 || h->bytes[2] != 0x03 || h->bytes[3] != 0x3b)
		return -ENOENT;
	h->count = u32_at(h->bytes + 8);
	if (h->count > (h->length - 12) / 8)
		h->count = (uint32_t)((h->length - 12) / 8);
	return 0;
}

static uint64_t header_start(const struct frame_header *h, uint32_t index)
{
	return h->vaddr + (uint64_t)(int64_t)(int32_t)u32_at(h->bytes + 12 + (size_t)index * 8);
}

/* The function at or below `vaddr`: its index, or h->count. */
static uint32_t header_find(const struct frame_header *h, uint64_t vaddr)
{
	uint32_t low = 0, high = h->count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (header_start(h, middle) <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : h->count;
}

/* Length of a function, from its FDE: length, CIE, begin and range as sdata4 (the encoding is not
 * looked up, so the begin has to be what the table says). 0 if it is not that. */
static uint64_t header_range(const struct runtime_file *file, const struct frame_header *h,
			     uint32_t index)
{
	const uint64_t fde =
	    h->vaddr + (uint64_t)(int64_t)(int32_t)u32_at(h->bytes + 12 + (size_t)index * 8 + 4);
	uint8_t bytes[16];

	if (runtime_file_read(file, fde, bytes, sizeof(bytes)) < 0)
		return 0;
	const uint64_t begin = fde + 8 + (uint64_t)(int64_t)(int32_t)u32_at(bytes + 8);
	return begin == header_start(h, index) ? u32_at(bytes + 12) : 0;
}

struct candidate {
	uint32_t function; /* index in the header */
	unsigned int targets;
};

/* The target of a direct jump at code + i, conditional or not; 0 if there is none. */
static uint64_t jump_target(const uint8_t *code, size_t length, size_t i, uint64_t vaddr)
{
	if (i + 6 <= length && code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80)
		return vaddr + i + 6 + (uint64_t)(int64_t)(int32_t)u32_at(code + i + 2);
	if (i + 5 <= length && code[i] == 0xe9)
		return vaddr + i + 5 + (uint64_t)(int64_t)(int32_t)u32_at(code + i + 1);
	return 0;
}

static void candidate_count(struct candidate *candidates, uint32_t function)
{
	for (int i = 0; i < CANDIDATES; i++) {
		struct candidate *c = &candidates[i];

		if (c->targets && c->function != function)
			continue;
		c->function = function;
		c->targets++;
		return;
	}
}

/* The function, by its table entry, into whose middle the code jumps most. */
static void find_split_part(const struct runtime_file *file, struct cpython_image *image,
			    const uint8_t *code, size_t length)
{
	const struct cpython_text *main = &image->texts[0];
	struct candidate candidates[CANDIDATES] = {0};
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
		for (int i = 1; i < CANDIDATES; i++) {
			if (candidates[i].targets > best->targets)
				best = &candidates[i];
		}
		const uint64_t start = best->targets ? header_start(&h, best->function) : 0;
		const uint64_t bytes = start ? header_range(file, &h, best->function) : 0;
		const bool is_begin =
		    main->end - main->start < SPLIT_MAIN_MAX && bytes >= SPLIT_BYTES_LEAST;

		if (bytes && (best->targets >= TARGETS_LEAST || is_begin))
			image->texts[image->text_count++] =
			    (struct cpython_text){start, start + bytes};
	}
	free(h.bytes);
}

/* Bytes of `mov %reg, 24(%base)` at `code`, a store into the thread's frame; 0 if it is something
 * else. A base of r12 takes a byte more; rsp would as well, but the thread is not on the stack. */
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

/* Where an epilogue that begins at `at` ends, its return behind it: the stack pointer is raised,
 * registers are popped. `at` itself if there is none. */
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

/* Where a direct jump at `at` leads within the code; `length` if there is none. */
static size_t jump_within(const uint8_t *code, size_t length, size_t at)
{
	size_t to = length;

	if (at + 5 <= length && code[at] == 0xe9)
		to = at + 5 + (size_t)(int64_t)(int32_t)u32_at(code + at + 1);
	else if (at + 2 <= length && code[at] == 0xeb)
		to = at + 2 + (size_t)(int64_t)(int8_t)code[at + 1];
	return to < length ? to : length;
}

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
 * 3.6 - 3.10: the first such store puts the frame on the chain; one that is followed by a call
 * (_Py_CheckFunctionResult) has taken it off, and then there is nothing but the way out.
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

int cpython_find_evaluator(const struct runtime_file *file, struct cpython_image *image)
{
	_cleanup_free_ uint8_t *code = NULL;
	struct runtime_symbol symbol;
	size_t length;

	if (runtime_file_exported(file, "_PyEval_EvalFrameDefault", &symbol) < 0 &&
	    runtime_file_local(file, "_PyEval_EvalFrameDefault", &symbol) < 0)
		return -ENOENT;
	if (!symbol.size || elf_image_read_vaddr(&file->image, symbol.vaddr, symbol.size,
						 CODE_BYTES_MAX, &code, &length) < 0)
		return -ENOENT;
	image->texts[0] = (struct cpython_text){symbol.vaddr, symbol.vaddr + symbol.size};
	image->text_count = 1;
	find_split_part(file, image, code, length);
	if (image->offsets.shape == CPYTHON_ONE_EACH)
		find_off_chain(image, code, length);
	return 0;
}
