/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/code_holes.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "parse/code_entries.h"
#include "parse/code_flow.h"

enum {
	ALIGNMENT_MAX = 64, /* of functions: a line of the processor's cache */
};

struct code_holes {
	const struct elf_image *image;
	const struct table_draft *draft;
	size_t run_count; /* of the draft, before anything was added to it */
	const struct cfi_sink *sink;
	struct code_flow *flow;
	struct code_entries entries;
	uint64_t largest; /* hole, in bytes */
	uint64_t found;	  /* bytes in holes of more than padding */
	uint64_t cost;	  /* bytes in all; padding counts as ALIGNMENT_MAX, for its being read */
	uint8_t *bytes;	  /* of a piece */
};

/* From `start` to `end`, in the section, as offsets in the file. */
typedef int (*hole_visit)(struct code_holes *holes, const struct elf_section *section,
			  uint64_t start, uint64_t end);

/* Whose bytes are all in the file, and have addresses. */
static bool section_is_code(const struct elf_image *image, const struct elf_section *section)
{
	return section->type == SHT_PROGBITS && (section->flags & SHF_EXECINSTR) &&
	       section->offset <= image->source.size &&
	       section->size <= image->source.size - section->offset &&
	       section->vaddr + section->size > section->vaddr;
}

static int holes_visit_section(struct code_holes *holes, const struct elf_section *section,
			       hole_visit visit)
{
	const uint64_t end = section->offset + section->size;
	uint64_t start = section->offset;
	int r = 0;

	for (size_t i = table_runs_find(holes->draft->runs, holes->run_count, start);
	     i < holes->run_count && !r; i++) {
		/* A copy: the sink may move them. */
		const struct table_run run = holes->draft->runs[i];

		if (run.start >= end)
			break;
		if (run.start >= start + TABLE_HOLE_BYTES)
			r = visit(holes, section, start, run.start);
		start = run.end;
	}
	return !r && end >= start + TABLE_HOLE_BYTES ? visit(holes, section, start, end) : r;
}

static int holes_visit(struct code_holes *holes, hole_visit visit)
{
	int r = 0;

	for (unsigned int i = 0; i < holes->image->section_count && !r; i++) {
		const struct elf_section *section = &holes->image->sections[i];

		if (section_is_code(holes->image, section))
			r = holes_visit_section(holes, section, visit);
	}
	return r;
}

static int hole_count(struct code_holes *holes, const struct elf_section *section, uint64_t start,
		      uint64_t end)
{
	(void)section;
	if (end - start > holes->largest)
		holes->largest = end - start;
	if (end - start > ALIGNMENT_MAX)
		holes->found += end - start;
	holes->cost += end - start > ALIGNMENT_MAX ? end - start : ALIGNMENT_MAX;
	return 0;
}

/* A hole, or a part of it that begins and ends with a function. */
static int hole_parse(struct code_holes *holes, const struct elf_section *section, uint64_t start,
		      uint64_t end)
{
	const uint64_t vaddr = section->vaddr + (start - section->offset);
	const size_t first = code_entries_before(&holes->entries, vaddr);
	const size_t last = code_entries_before(&holes->entries, vaddr + (end - start));
	const struct code_stretch stretch = {
	    .bytes = holes->bytes,
	    .length = end - start,
	    .vaddr = vaddr,
	    .entries = holes->entries.vaddrs + first,
	    .entry_count = last - first,
	    .outermost = holes->image->entry,
	};
	const struct elf_source *source = &holes->image->source;

	/* What a file does not have is not described. */
	if (source->read(source->context, start, holes->bytes, end - start))
		return 0;
	return code_flow_parse(holes->flow, &stretch);
}

/* Where a piece that begins at `start` ends: before the last function that does not fit. */
static uint64_t piece_end(const struct code_holes *holes, const struct elf_section *section,
			  uint64_t start, uint64_t end)
{
	const uint64_t to_vaddr = section->vaddr - section->offset;

	if (end - start <= LIMIT_CODE_PIECE_BYTES)
		return end;
	end = start + LIMIT_CODE_PIECE_BYTES;
	const size_t before = code_entries_before(&holes->entries, end + to_vaddr + 1);
	const uint64_t last = before ? holes->entries.vaddrs[before - 1] - to_vaddr : 0;
	return last > start && last < end ? last : end;
}

static int hole_parse_pieces(struct code_holes *holes, const struct elf_section *section,
			     uint64_t start, uint64_t end)
{
	int r = 0;

	for (uint64_t next; start < end && !r; start = next) {
		next = piece_end(holes, section, start, end);
		r = hole_parse(holes, section, start, next);
	}
	return r;
}

static void holes_fini(struct code_holes *holes)
{
	code_flow_free(holes->flow);
	code_entries_fini(&holes->entries);
	free(holes->bytes);
}

int code_holes_read(const struct elf_image *image, const struct table_draft *draft,
		    const struct cfi_sink *sink)
{
	_cleanup_(holes_fini) struct code_holes holes = {
	    .image = image, .draft = draft, .run_count = draft->run_count, .sink = sink};

	if (image->go_build_id[0] || elf_image_find_section(image, ".gopclntab"))
		return 0;
	holes_visit(&holes, hole_count);
	if (!holes.largest || holes.cost > LIMIT_CODE_BYTES)
		return 0;
	int r = 0;
	if (holes.found > LIMIT_CODE_STARTUP_BYTES)
		r = code_entries_read(&holes.entries, image, LIMIT_CODE_ENTRIES_BYTES);
	if (!r)
		r = code_flow_new(&holes.flow, sink);
	if (r < 0)
		return r;
	holes.bytes =
	    malloc(holes.largest < LIMIT_CODE_PIECE_BYTES ? holes.largest : LIMIT_CODE_PIECE_BYTES);
	return holes.bytes ? holes_visit(&holes, hole_parse_pieces) : -ENOMEM;
}
