/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbolizer/dwarf_names_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_read.h"

struct elf_source source_of(int *fd, const char *path)
{
	struct stat stat;

	*fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(*fd, 0, "%s", path);
	cr_assert_eq(file_read_status(*fd, &stat), 0);
	return (struct elf_source){
	    .read = file_read_from, .context = fd, .size = (uint64_t)stat.st_size};
}

void open_file(struct opened *opened, const char *path)
{
	*opened = (struct opened){0};
	opened->source = source_of(&opened->fd, path);
	cr_assert_eq(elf_image_init(&opened->image, &opened->source), 0);
	cr_assert_eq(namer_open(&opened->namer, &opened->image), 0);
	cr_assert_eq(opened->namer.ops, &namer_dwarf, "%s", path);
}

void close_file(struct opened *opened)
{
	namer_close(&opened->namer);
	elf_image_fini(&opened->image);
	close(opened->fd);
	while (opened->further_count)
		close(opened->further_fds[--opened->further_count]);
}

int add_further(struct opened *opened, const char *path)
{
	const unsigned int number = opened->further_count;
	struct elf_image image;

	cr_assert_lt(number, FURTHER_MAX);
	opened->further[number] = source_of(&opened->further_fds[number], path);
	cr_assert_eq(elf_image_init_sections(&image, &opened->further[number]), 0);
	const int r = namer_add(&opened->namer, &image);
	elf_image_fini(&image);
	if (r == 0)
		opened->further_count++;
	else
		close(opened->further_fds[number]);
	return r;
}

int name(struct opened *opened, uint64_t vaddr, struct named_frames *frames)
{
	const struct namer_sources sources = {.file = &opened->source, .further = opened->further};
	int r = -EAGAIN;

	for (unsigned int i = 0; (r == -EAGAIN || r == -EINPROGRESS) && i < PARTS_MAX; i++)
		r = namer_name(&opened->namer, &sources, vaddr, frames);
	cr_assert(r == 0 || r == -ENOENT, "it must end: %d", r);
	return r;
}

void describe(const struct named_frames *frames, FILE *out)
{
	for (unsigned int i = 0; i < frames->count && frames->frames[i].function[0]; i++)
		fprintf(out, "%s %s:%u\n", frames->frames[i].function, frames->frames[i].file,
			frames->frames[i].line);
}

unsigned int compare_with_original(struct opened *opened, struct opened *original, bool all)
{
	static struct named_frames frames;
	unsigned int same = 0;

	for (unsigned int i = 0; i < opened->image.segment_count; i++) {
		const struct elf_segment *segment = &opened->image.segments[i];

		for (uint64_t at = 0; segment->executable && at < segment->file_size; at++) {
			char ours[8192] = "", theirs[8192] = "";
			FILE *out = fmemopen(theirs, sizeof(theirs), "w");

			if (name(original, segment->vaddr + at, &frames) == 0)
				describe(&frames, out);
			fclose(out);
			out = fmemopen(ours, sizeof(ours), "w");
			if (name(opened, segment->vaddr + at, &frames) == 0)
				describe(&frames, out);
			fclose(out);
			if (all)
				cr_assert_str_eq(ours, theirs, "0x%lx", segment->vaddr + at);
			same += ours[0] && strcmp(ours, theirs) == 0;
		}
	}
	return same;
}
