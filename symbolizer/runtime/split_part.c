/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the part of a function that the compiler split off as unlikely.
 *
 * How this works: the function jumps into the middle of that part. So all direct jumps that leave
 * the function are collected, and the functions of .eh_frame_hdr that contain their targets are
 * counted: the most frequent one is the split part. Instructions are not decoded, so random bytes
 * look like jumps too, but their targets do not agree.
 *
 * Example: the function is 0x1000 - 0x9000. 40 jumps lead into 0x500 - 0x700, another entry of
 * .eh_frame_hdr: that is the split part.
 */
#include "symbolizer/runtime/split_part.h"

#include <errno.h>
#include <stdlib.h>

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

static int header_read(const struct runtime_file *file, struct frame_header *h)
{
	const struct elf_image *image = &file->image;

	h->vaddr = image->eh_frame_hdr_vaddr;
	if (!h->vaddr ||
	    elf_image_read_vaddr(image, h->vaddr, image->eh_frame_hdr_size,
				 SPLIT_PART_HEADER_BYTES_MAX, &h->bytes, &h->length) < 0)
		return -ENOENT;
	if (h->length < HEADER_BYTES || h->bytes[0] != HEADER_VERSION ||
	    h->bytes[2] != HEADER_COUNT_UDATA4 || h->bytes[3] != HEADER_TABLE_DATAREL_SDATA4)
		return -ENOENT;
	h->count = cursor_u32_at(h->bytes + 8);
	if (h->count > (h->length - HEADER_BYTES) / HEADER_ENTRY_BYTES)
		h->count = (uint32_t)((h->length - HEADER_BYTES) / HEADER_ENTRY_BYTES);
	return 0;
}

/* These two return the start of the function of a table entry, and the address of its FDE. */
static uint64_t header_start(const struct frame_header *h, uint32_t index)
{
	return h->vaddr +
	       cursor_displacement(h->bytes + HEADER_BYTES + (size_t)index * HEADER_ENTRY_BYTES);
}

static uint64_t header_fde(const struct frame_header *h, uint32_t index)
{
	return h->vaddr + cursor_displacement(h->bytes + HEADER_BYTES +
					      (size_t)index * HEADER_ENTRY_BYTES + 4);
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
	const uint64_t start = fde + 8 + cursor_displacement(bytes + 8);
	return start == header_start(h, index) ? cursor_u32_at(bytes + 12) : 0;
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
		return vaddr + i + 6 + cursor_displacement(code + i + 2);
	if (i + 5 <= length && code[i] == 0xe9)
		return vaddr + i + 5 + cursor_displacement(code + i + 1);
	return 0;
}

static void candidate_count(struct candidate *candidates, uint32_t function)
{
	for (int i = 0; i < SPLIT_PART_CANDIDATES_MAX; i++) {
		struct candidate *c = &candidates[i];

		if (c->targets && c->function != function)
			continue;
		c->function = function;
		c->targets++;
		return;
	}
}

bool split_part_find(const struct runtime_file *file, uint64_t start, const uint8_t *code,
		     size_t length, struct split_part *part)
{
	struct candidate candidates[SPLIT_PART_CANDIDATES_MAX] = {0};
	const struct candidate *best = &candidates[0];
	struct frame_header h = {0};
	bool is_found = false;

	if (header_read(file, &h) == 0) {
		for (size_t i = 0; i < length; i++) {
			const uint64_t target = jump_target(code, length, i, start);
			const uint32_t found =
			    target && (target < start || target >= start + length)
				? header_find(&h, target)
				: h.count;

			if (found < h.count && header_start(&h, found) != start &&
			    target < header_start(&h, found) + header_range(file, &h, found))
				candidate_count(candidates, found);
		}
		for (int i = 1; i < SPLIT_PART_CANDIDATES_MAX; i++) {
			if (candidates[i].targets > best->targets)
				best = &candidates[i];
		}
		part->start = best->targets ? header_start(&h, best->function) : 0;
		const uint64_t bytes = part->start ? header_range(file, &h, best->function) : 0;
		const bool is_stub = length < STUB_BYTES_MAX && bytes >= STUB_SPLIT_BYTES_MIN;

		part->end = part->start + bytes;
		is_found = bytes && (best->targets >= SPLIT_TARGETS_MIN || is_stub);
	}
	free(h.bytes);
	return is_found;
}
