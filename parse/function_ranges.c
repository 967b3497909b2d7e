/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/function_ranges.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/search.h"
#include "parse/cfi.h"
#include "parse/cfi_encoding.h"

enum {
	HEADER_BYTES = 12, /* version, three encodings, pointer to .eh_frame, number of pairs */
	PAIR_BYTES = 8,
	PAIRS_PER_READ = 2048, /* 16 KiB, on the stack */
	ENTRIES_MIN = 256,
};

/* A function: 8 bytes. */
struct function_ranges_entry {
	uint32_t start; /* from `base` */
	uint32_t bytes;
};
_Static_assert(sizeof(struct function_ranges_entry) == 8, "the index is meant to be compact");

/* --- finding the tables --- */

static int read_source(const struct elf_source *source, uint64_t offset, void *bytes, size_t length)
{
	return source->read(source->context, offset, bytes, length);
}

/* Uses `bytes` of .eh_frame that are loaded at `vaddr`, or as many as there are in the segment. */
static bool set_frames(struct function_ranges *ranges, const struct elf_image *image,
		       uint64_t vaddr, uint64_t bytes)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *segment = &image->segments[i];
		const uint64_t into = vaddr - segment->vaddr;

		if (vaddr < segment->vaddr || into >= segment->file_size ||
		    segment->offset > UINT64_MAX - into)
			continue;
		ranges->frames_vaddr = vaddr;
		ranges->frames_offset = segment->offset + into;
		ranges->frames_bytes =
		    bytes < segment->file_size - into ? bytes : segment->file_size - into;
		return true;
	}
	return false;
}

/* Returns whether the first address of each pair is larger than that of the pair before. */
static bool table_is_sorted(const struct function_ranges *ranges, const struct elf_source *source)
{
	int32_t pairs[PAIRS_PER_READ][2];
	int64_t last = INT64_MIN;

	for (uint32_t at = 0; at < ranges->table_count;) {
		uint32_t count = ranges->table_count - at;

		if (count > PAIRS_PER_READ)
			count = PAIRS_PER_READ;
		if (read_source(source, ranges->table_offset + (uint64_t)at * PAIR_BYTES, pairs,
				(size_t)count * PAIR_BYTES) < 0)
			return false;
		for (uint32_t i = 0; i < count; i++) {
			if (pairs[i][0] <= last)
				return false;
			last = pairs[i][0];
		}
		at += count;
	}
	return true;
}

/* Reads .eh_frame_hdr. It says where .eh_frame is, for files without section headers. Its table is
 * used if it is written as all linkers do: 32-bit addresses relative to the header, sorted. */
static void read_header(struct function_ranges *ranges, const struct elf_image *image)
{
	uint8_t bytes[HEADER_BYTES];
	uint64_t offset;

	if (image->eh_frame_hdr_size < sizeof(bytes) ||
	    !elf_image_vaddr_to_offset(image, image->eh_frame_hdr_vaddr, &offset) ||
	    read_source(&image->source, offset, bytes, sizeof(bytes)) < 0)
		return;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	const uint8_t version = cursor_u8(&c), frames_encoding = cursor_u8(&c),
		      count_encoding = cursor_u8(&c), table_encoding = cursor_u8(&c);
	const uint64_t frames = image->eh_frame_hdr_vaddr + 4 + (uint64_t)(int32_t)cursor_u32(&c);
	const uint32_t count = cursor_u32(&c);
	if (version != 1)
		return;
	if (!ranges->frames_bytes && frames_encoding == (PE_PCREL | PE_SDATA4))
		set_frames(ranges, image, frames, LIMIT_CFI_BYTES);
	if (!ranges->frames_bytes || frames_encoding != (PE_PCREL | PE_SDATA4) ||
	    count_encoding != PE_UDATA4 || table_encoding != (PE_DATAREL | PE_SDATA4) ||
	    count > (image->eh_frame_hdr_size - HEADER_BYTES) / PAIR_BYTES)
		return;
	ranges->header_vaddr = image->eh_frame_hdr_vaddr;
	ranges->table_offset = offset + HEADER_BYTES;
	ranges->table_count = count;
	if (!table_is_sorted(ranges, &image->source))
		ranges->table_count = 0;
}

/* --- the index --- */

struct index_build {
	struct function_ranges *ranges;
	size_t capacity, capacity_max;
	bool unsorted;
};

static int index_add(void *context, uint64_t start, uint64_t end)
{
	struct index_build *build = context;
	struct function_ranges *ranges = build->ranges;

	if (start < ranges->base || start - ranges->base > UINT32_MAX)
		return 0;
	int r = ARRAY_RESERVE(ranges->entries, build->capacity, ranges->entry_count + 1,
			      ENTRIES_MIN, build->capacity_max);
	if (r < 0)
		return r;
	const struct function_ranges_entry entry = {.start = (uint32_t)(start - ranges->base),
						    .bytes = (uint32_t)(end - start)};
	build->unsorted |=
	    ranges->entry_count && ranges->entries[ranges->entry_count - 1].start > entry.start;
	ranges->entries[ranges->entry_count++] = entry;
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct function_ranges_entry *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static uint64_t lowest_code(const struct elf_image *image)
{
	uint64_t lowest = UINT64_MAX;

	for (unsigned int i = 0; i < image->segment_count; i++) {
		if (image->segments[i].executable && image->segments[i].vaddr < lowest)
			lowest = image->segments[i].vaddr;
	}
	return lowest;
}

static void section_init(const struct function_ranges *ranges, const struct elf_source *source,
			 struct elf_window *window, struct cfi_section *section)
{
	elf_window_init(window, source, ranges->frames_offset, ranges->frames_bytes);
	*section = (struct cfi_section){.window = window,
					.vaddr = ranges->frames_vaddr,
					.text_vaddr = ranges->text_vaddr,
					.data_vaddr = ranges->data_vaddr};
}

static int index_build(struct function_ranges *ranges, const struct elf_source *source,
		       size_t cap_bytes)
{
	struct index_build build = {
	    .ranges = ranges, .capacity_max = cap_bytes / sizeof(struct function_ranges_entry)};
	_cleanup_(elf_window_fini) struct elf_window window;
	struct cfi_section section;

	section_init(ranges, source, &window, &section);
	if (cfi_visit_ranges(&section, build.capacity_max, index_add, &build) == -ENOMEM)
		return -ENOMEM;
	if (build.unsorted)
		qsort(ranges->entries, ranges->entry_count, sizeof(ranges->entries[0]),
		      compare_entries);
	void *shrunk = ranges->entry_count ? reallocarray(ranges->entries, ranges->entry_count,
							  sizeof(ranges->entries[0]))
					   : NULL;
	if (shrunk)
		ranges->entries = shrunk;
	return 0;
}

/* --- interface --- */

int function_ranges_init(struct function_ranges *ranges, const struct elf_image *image,
			 size_t cap_bytes)
{
	const struct elf_section *frames = elf_image_find_section(image, ".eh_frame");

	*ranges = (struct function_ranges){.base = lowest_code(image),
					   .text_vaddr = elf_image_section_vaddr(image, ".text"),
					   .data_vaddr = elf_image_section_vaddr(image, ".got")};
	if (frames && frames->type != SHT_NOBITS && !(frames->flags & SHF_COMPRESSED))
		set_frames(ranges, image, frames->vaddr,
			   frames->size < LIMIT_CFI_BYTES ? frames->size : LIMIT_CFI_BYTES);
	read_header(ranges, image);
	if (ranges->table_count || !ranges->frames_bytes)
		return 0;
	int r = index_build(ranges, &image->source, cap_bytes);
	if (r < 0)
		function_ranges_fini(ranges);
	return r;
}

void function_ranges_fini(struct function_ranges *ranges)
{
	free(ranges->entries);
	*ranges = (struct function_ranges){0};
}

size_t function_ranges_bytes(const struct function_ranges *ranges)
{
	return ranges->entry_count * sizeof(ranges->entries[0]);
}

/* Finds the last pair of the table that starts at or below `vaddr`, and reads its FDE. This is a
 * loop of its own because reading a pair may fail. */
static bool table_find(const struct function_ranges *ranges, const struct elf_source *source,
		       uint64_t vaddr, struct function_range *range)
{
	uint32_t low = 0, high = ranges->table_count;
	int32_t pair[2], best[2] = {0};

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (read_source(source, ranges->table_offset + (uint64_t)middle * PAIR_BYTES, pair,
				sizeof(pair)) < 0)
			return false;
		if ((int64_t)(vaddr - ranges->header_vaddr) >= pair[0]) {
			low = middle + 1;
			memcpy(best, pair, sizeof(best));
		} else {
			high = middle;
		}
	}
	const uint64_t fde = ranges->header_vaddr + (uint64_t)(int64_t)best[1];
	struct elf_window window;
	struct cfi_section section;

	if (low == 0 || fde < ranges->frames_vaddr)
		return false;
	section_init(ranges, source, &window, &section);
	return cfi_read_range(&section, fde - ranges->frames_vaddr, &range->start, &range->end) ==
	       0;
}

/* Finds the last entry of the index that starts at or below `vaddr`. */
static bool index_find(const struct function_ranges *ranges, uint64_t vaddr,
		       struct function_range *range)
{
	const size_t count = SEARCH_LOWER_BOUND(i, ranges->entry_count,
						ranges->base + ranges->entries[i].start <= vaddr);

	if (count == 0)
		return false;
	range->start = ranges->base + ranges->entries[count - 1].start;
	range->end = range->start + ranges->entries[count - 1].bytes;
	return true;
}

bool function_ranges_find(const struct function_ranges *ranges, const struct elf_source *source,
			  uint64_t vaddr, struct function_range *range)
{
	struct function_range found;
	bool ok;

	if (ranges->table_count)
		ok = table_find(ranges, source, vaddr, &found);
	else
		ok = index_find(ranges, vaddr, &found);
	if (!ok || vaddr < found.start || vaddr >= found.end)
		return false;
	*range = found;
	return true;
}
