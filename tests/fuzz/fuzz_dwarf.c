/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes debug information. The input is an ELF file, of which addresses in the code are named. If
 * it says that it has an alternate file, a second ELF file follows it in the input, or it is that
 * itself.
 * Checks that each lookup ends, and what namer.h promises: names and paths are in the text, and
 * there are not too many functions. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/namer/namer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	LOOKUPS = 32,
	LOOKUP_STEP_BYTES = 5, /* the seeds have 160 bytes of code */
	PARTS_MAX = 64,	       /* of a lookup: an input is far smaller than the cost of one part */
};

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_text(const struct named_frames *frames, const char *text)
{
	const uintptr_t start = (uintptr_t)frames->text, at = (uintptr_t)text;

	check(!*text || (at >= start && at + strlen(text) < start + frames->used));
}

static void name_all(void *state, const struct namer_sources *sources, uint64_t start)
{
	static struct named_frames frames;

	for (uint64_t i = 0; i < LOOKUPS; i++) {
		int r = -EAGAIN;

		for (unsigned int part = 0; r == -EAGAIN; part++) {
			check(part < PARTS_MAX);
			frames.count = 0;
			frames.used = 0;
			r = namer_dwarf.name(state, sources, start + i * LOOKUP_STEP_BYTES,
					     &frames);
		}
		check(r == 0 || r == -ENOENT);
		if (r < 0)
			continue;
		check(frames.count > 0 && frames.count <= NAMED_FRAMES_MAX);
		for (unsigned int j = 0; j < frames.count; j++) {
			check_text(&frames, frames.frames[j].function);
			check_text(&frames, frames.frames[j].file);
		}
	}
}

/* Returns the second ELF file, or all of it if there is none. */
static struct elf_buffer find_second(const uint8_t *data, size_t size)
{
	const uint8_t *second =
	    size > EI_NIDENT ? memmem(data + EI_NIDENT, size - EI_NIDENT, ELFMAG, SELFMAG) : NULL;

	return second ? (struct elf_buffer){second, size - (size_t)(second - data)}
		      : (struct elf_buffer){data, size};
}

static void add_alternate(void *state, const struct elf_source *source)
{
	struct elf_image image;

	if (elf_image_init_sections(&image, source) < 0)
		return;
	const int r = namer_dwarf.add_alternate(state, &image);
	check(r <= 0 && (r < 0 || !namer_dwarf.wanted_alternate(state)));
	elf_image_fini(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_buffer buffer = {data, size};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	struct elf_buffer second = find_second(data, size);
	const struct elf_source alternate = elf_source_from_buffer(&second);
	struct namer_sources sources = {.file = &source};
	struct elf_image image;
	void *state;

	if (elf_image_init(&image, &source) < 0)
		return 0;
	for (unsigned int cut = 0; cut < 2; cut++) {
		/* The second time, the file is cut off after its sections were found. */
		buffer.length = size;
		if (namer_dwarf.open(&image, &state) < 0)
			break;
		if (namer_dwarf.wanted_alternate(state)) {
			add_alternate(state, &alternate);
			sources.alternate = &alternate;
		}
		if (cut)
			buffer.length = size / 3 * 2;
		for (unsigned int i = 0; i < image.segment_count; i++) {
			if (image.segments[i].executable)
				name_all(state, &sources, image.segments[i].vaddr);
		}
		check(namer_dwarf.bytes(state) > 0);
		namer_dwarf.close(state);
	}
	elf_image_fini(&image);
	return 0;
}
