/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the index of function ranges. The input is an ELF file: its unwind tables are indexed, then
 * addresses in all its segments are looked up. Checks that the index stays below its cap and that the
 * range found contains the address. */
#include <stdlib.h>

#include "parse/function_ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	CAP_BYTES = 64 * 1024,
	LOOKUPS_PER_SEGMENT = 64,
};

static void find_all(const struct function_ranges *ranges, const struct elf_source *source,
		     const struct elf_segment *segment)
{
	/* A forged segment may have 2^64 - 1 bytes, so a sum of steps would wrap. */
	for (uint64_t i = 0; i < LOOKUPS_PER_SEGMENT; i++) {
		const uint64_t vaddr =
		    segment->vaddr + segment->memory_size / LOOKUPS_PER_SEGMENT * i;
		struct function_range range;

		if (function_ranges_find(ranges, source, vaddr, &range) &&
		    (range.start > vaddr || range.end <= vaddr))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_buffer buffer = {data, size};
	struct elf_source source = elf_source_from_buffer(&buffer);
	struct function_ranges ranges;
	struct elf_image image;

	if (elf_image_init(&image, &source) < 0)
		return 0;
	if (function_ranges_init(&ranges, &image, CAP_BYTES) == 0) {
		if (function_ranges_bytes(&ranges) > CAP_BYTES)
			abort();
		for (unsigned int i = 0; i < image.segment_count; i++)
			find_all(&ranges, &source, &image.segments[i]);
		/* The file is cut off after it was indexed. */
		buffer.length = size / 3 * 2;
		for (unsigned int i = 0; i < image.segment_count; i++)
			find_all(&ranges, &source, &image.segments[i]);
		function_ranges_fini(&ranges);
	}
	elf_image_fini(&image);
	return 0;
}
