/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see uncovered_code.h. */
#include "unwinder-mgr/uncovered_code.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "parse/code_entries.h"
#include "parse/code_flow.h"
#include "unwinder-mgr/limits.h"

enum {
	ALIGNMENT_MAX = 64, /* the largest usual alignment of a function: one cache line */
};

struct uncovered_code {
	const struct elf_image *image;
	const struct unwind_ranges *ranges;
	size_t range_count; /* how many there were before the sink appended some */
	const struct cfi_sink *sink;
	struct code_flow *flow;
	struct code_entries entries;
	uint64_t largest; /* gap, in bytes */
	uint64_t found;	  /* bytes in all gaps that are larger than padding */
	uint64_t cost;	  /* bytes to analyse; each padding counts as ALIGNMENT_MAX */
	uint8_t *bytes;	  /* of one region */
};

/* Called for the gap from `start` to `end`, file offsets within the section. */
typedef int (*gap_visit)(struct uncovered_code *code, const struct elf_section *section,
			 uint64_t start, uint64_t end);

/* Returns whether a section is code whose bytes are all in the file and have addresses. */
static bool section_is_code(const struct elf_image *image, const struct elf_section *section)
{
	return section->type == SHT_PROGBITS && (section->flags & SHF_EXECINSTR) &&
	       section->offset <= image->source.size &&
	       section->size <= image->source.size - section->offset &&
	       section->vaddr + section->size > section->vaddr;
}

static int visit_gaps_of_section(struct uncovered_code *code, const struct elf_section *section,
				 gap_visit visit)
{
	const uint64_t end = section->offset + section->size;
	uint64_t start = section->offset;
	int r = 0;

	for (size_t i = unwind_ranges_find(code->ranges->items, code->range_count, start);
	     i < code->range_count && !r; i++) {
		/* A copy, because the sink may move the ranges while it appends. */
		const struct unwind_range range = code->ranges->items[i];

		if (range.start >= end)
			break;
		if (range.start >= start + UNWIND_GAP_BYTES)
			r = visit(code, section, start, range.start);
		start = range.end;
	}
	return !r && end >= start + UNWIND_GAP_BYTES ? visit(code, section, start, end) : r;
}

static int visit_gaps(struct uncovered_code *code, gap_visit visit)
{
	int r = 0;

	for (unsigned int i = 0; i < code->image->section_count && !r; i++) {
		const struct elf_section *section = &code->image->sections[i];

		if (section_is_code(code->image, section))
			r = visit_gaps_of_section(code, section, visit);
	}
	return r;
}

static int gap_count(struct uncovered_code *code, const struct elf_section *section, uint64_t start,
		     uint64_t end)
{
	const uint64_t bytes = end - start;

	(void)section;
	if (bytes > code->largest)
		code->largest = bytes;
	if (bytes > ALIGNMENT_MAX)
		code->found += bytes;
	code->cost += bytes > ALIGNMENT_MAX ? bytes : ALIGNMENT_MAX;
	return 0;
}

/* Analyses a gap, or a part of it that starts and ends at a function. Bytes that cannot be read are
 * not described. */
static int gap_parse_region(struct uncovered_code *code, const struct elf_section *section,
			    uint64_t start, uint64_t end)
{
	const uint64_t vaddr = section->vaddr + (start - section->offset);
	const size_t first = code_entries_before(&code->entries, vaddr);
	const size_t last = code_entries_before(&code->entries, vaddr + (end - start));
	const struct code_region region = {
	    .bytes = code->bytes,
	    .length = end - start,
	    .vaddr = vaddr,
	    .entries = code->entries.vaddrs + first,
	    .entry_count = last - first,
	    .outermost = code->image->entry,
	};
	const struct elf_source *source = &code->image->source;

	if (source->read(source->context, start, code->bytes, end - start))
		return 0;
	return code_flow_parse(code->flow, &region);
}

/* Returns where a region that starts at `start` ends: before the last function that does not
 * fit. */
static uint64_t region_end(const struct uncovered_code *code, const struct elf_section *section,
			   uint64_t start, uint64_t end)
{
	const uint64_t to_vaddr = section->vaddr - section->offset;

	if (end - start <= LIMIT_CODE_REGION_BYTES)
		return end;
	end = start + LIMIT_CODE_REGION_BYTES;
	const size_t before = code_entries_before(&code->entries, end + to_vaddr + 1);
	const uint64_t last = before ? code->entries.vaddrs[before - 1] - to_vaddr : 0;
	return last > start && last < end ? last : end;
}

static int gap_parse(struct uncovered_code *code, const struct elf_section *section, uint64_t start,
		     uint64_t end)
{
	int r = 0;

	for (uint64_t next; start < end && !r; start = next) {
		next = region_end(code, section, start, end);
		r = gap_parse_region(code, section, start, next);
	}
	return r;
}

static void uncovered_code_fini(struct uncovered_code *code)
{
	code_flow_free(code->flow);
	code_entries_fini(&code->entries);
	free(code->bytes);
}

int uncovered_code_read(const struct elf_image *image, const struct unwind_ranges *ranges,
			const struct cfi_sink *sink)
{
	_cleanup_(uncovered_code_fini) struct uncovered_code code = {
	    .image = image, .ranges = ranges, .range_count = ranges->count, .sink = sink};

	if (image->go_build_id[0] || elf_image_find_section(image, ".gopclntab"))
		return 0;
	visit_gaps(&code, gap_count);
	if (!code.largest || code.cost > LIMIT_CODE_BYTES)
		return 0;
	int r = 0;
	if (code.found > LIMIT_CODE_STARTUP_BYTES)
		r = code_entries_read(&code.entries, image, LIMIT_CODE_ENTRIES_BYTES);
	if (!r)
		r = code_flow_new(&code.flow, sink);
	if (r < 0)
		return r;
	code.bytes =
	    malloc(code.largest < LIMIT_CODE_REGION_BYTES ? code.largest : LIMIT_CODE_REGION_BYTES);
	return code.bytes ? visit_gaps(&code, gap_parse) : -ENOMEM;
}
