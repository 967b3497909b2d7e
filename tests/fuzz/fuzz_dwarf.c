/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes debug information. The input is an ELF file, of which addresses in the code are named. If
 * a further file is wanted, a second ELF file follows it in the input, or it is that itself.
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

/* Adds the file that is wanted, or says that there is none. Returns whether it was added. */
static bool bring_wanted(void *state, const struct elf_source *source)
{
	struct elf_image image;
	int r = -ENOEXEC;

	if (elf_image_init_sections(&image, source) == 0) {
		r = namer_dwarf.add(state, &image);
		check(r <= 0);
		elf_image_fini(&image);
	}
	if (r < 0)
		namer_dwarf.do_without(state);
	check(!namer_dwarf.wanted(state));
	return r == 0;
}

/* What lookups read. All further files are the same one. */
struct files {
	struct elf_source file, further[NAMER_FILES_MAX];
	unsigned int further_count;
};

static void name_all(void *state, struct files *files, uint64_t start)
{
	const struct namer_sources sources = {.file = &files->file, .further = files->further};
	static struct named_frames frames;

	for (uint64_t i = 0; i < LOOKUPS; i++) {
		int r = -EAGAIN;

		for (unsigned int part = 0; r == -EAGAIN || r == -EINPROGRESS; part++) {
			check(part < PARTS_MAX);
			frames.count = 0;
			frames.used = 0;
			r = namer_dwarf.name(state, &sources, start + i * LOOKUP_STEP_BYTES,
					     &frames);
			if (namer_dwarf.wanted(state)) {
				check(files->further_count < NAMER_FILES_MAX);
				files->further_count +=
				    bring_wanted(state, &files->further[files->further_count]);
			}
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_buffer buffer = {data, size};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	struct elf_buffer second = find_second(data, size);
	struct files files = {.file = source};
	struct elf_image image;
	void *state;

	for (unsigned int i = 0; i < NAMER_FILES_MAX; i++)
		files.further[i] = elf_source_from_buffer(&second);
	if (elf_image_init(&image, &source) < 0)
		return 0;
	for (unsigned int cut = 0; cut < 2; cut++) {
		/* The second time, the file is cut off after its sections were found. */
		buffer.length = size;
		if (namer_dwarf.open(&image, &state) < 0)
			break;
		files.further_count = 0;
		if (namer_dwarf.wanted(state))
			files.further_count += bring_wanted(state, &files.further[0]);
		if (cut)
			buffer.length = size / 3 * 2;
		for (unsigned int i = 0; i < image.segment_count; i++) {
			if (image.segments[i].executable)
				name_all(state, &files, image.segments[i].vaddr);
		}
		check(namer_dwarf.bytes(state) > 0);
		namer_dwarf.close(state);
	}
	elf_image_fini(&image);
	return 0;
}
