/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a range of a file through a moving buffer.
 *
 * How this works: a parser that goes through a section of several MB in order needs only a few
 * bytes at a time. Allocating memory for all of it would cost more than reading it, because the
 * kernel clears fresh pages. So a buffer of 64 KiB holds the part of the range from `at` on. A
 * request for bytes that are in the buffer is answered from it; any other request moves the buffer
 * to the requested offset and fills it. A request larger than the buffer enlarges it. If the range
 * is in memory, the window moves over it in the same way, but nothing is copied.
 *
 * Example: the range has 200,000 bytes. get(0, 4) reads 0 - 65,535. get(65,000, 400) is in the
 * buffer. get(65,400, 400) is not: the buffer moves to 65,400 - 130,935. copy(10, 20) reads 20
 * bytes from the file and leaves the buffer where it is.
 *
 * Every request is checked against the range. The file may shrink meanwhile; then the source
 * reports it (-ENODATA).
 */
#include "parse/elf_window.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void elf_window_init(struct elf_window *window, const struct elf_source *source, uint64_t offset,
		     uint64_t length)
{
	*window = (struct elf_window){
	    .source = *source, .offset = offset, .length = length, .step = ELF_WINDOW_BYTES};
}

void elf_window_init_contents(struct elf_window *window, const void *contents, size_t length)
{
	*window =
	    (struct elf_window){.contents = contents, .length = length, .step = ELF_WINDOW_BYTES};
}

void elf_window_limit(struct elf_window *window, uint64_t length)
{
	if (length < window->length)
		window->length = length;
}

int elf_window_init_section(struct elf_window *window, const struct elf_image *image,
			    const struct elf_section *section, size_t cap)
{
	if (section->type == SHT_NOBITS || section->size == 0)
		return -ENOENT;
	if (section->size > cap)
		return -EFBIG;
	elf_window_init(window, &image->source, section->offset, section->size);
	if (!(section->flags & SHF_COMPRESSED))
		return 0;
	/* The buffer holds all of the contents, so nothing will be read. */
	int rc = elf_image_read_section(image, section, cap, &window->buffer, &window->allocated);
	window->bytes = window->buffer;
	window->length = window->filled = window->allocated;
	return rc;
}

void elf_window_fini(struct elf_window *window)
{
	free(window->buffer);
	*window = (struct elf_window){0};
}

static int window_reserve(struct elf_window *window, size_t bytes)
{
	if (bytes <= window->allocated)
		return 0;
	/* The contents are not needed any more, so they are not copied. */
	free(window->buffer);
	window->filled = window->allocated = 0;
	window->buffer = malloc(bytes);
	if (!window->buffer)
		return -ENOMEM;
	window->allocated = bytes;
	return 0;
}

static int window_read(const struct elf_window *window, uint64_t at, void *bytes, size_t length)
{
	uint64_t from;

	if (window->contents) {
		memcpy(bytes, window->contents + at, length);
		return 0;
	}
	if (__builtin_add_overflow(window->offset, at, &from))
		return -ENODATA;
	return window->source.read(window->source.context, from, bytes, length);
}

int elf_window_move(struct elf_window *window, uint64_t at, uint64_t need)
{
	if (at > window->length || need > window->length - at)
		return -ENODATA;
	const uint64_t left = window->length - at;
	uint64_t bytes = need > window->step ? need : window->step;

	if (bytes > left)
		bytes = left;
	if (window->contents) {
		window->bytes = window->contents + at;
		window->at = at;
		window->filled = (size_t)bytes;
		return 0;
	}
	int rc = window_reserve(window, (size_t)bytes);
	if (rc < 0)
		return rc;
	window->bytes = window->buffer;
	window->at = at;
	window->filled = 0;
	rc = window_read(window, at, window->buffer, (size_t)bytes);
	if (rc == 0)
		window->filled = (size_t)bytes;
	return rc;
}

int elf_window_pieces(struct elf_window *window, uint64_t base, size_t need, elf_window_look *look,
		      void *context)
{
	struct cursor piece;
	uint64_t at = 0;
	int r;

	while ((r = elf_window_get(window, at, need, &piece)) == 0 &&
	       (r = look(context, base + at, piece)) == -ENOENT)
		at += cursor_left(&piece) - need + 1;
	return r == -ENODATA ? -ENOENT : r;
}

int elf_window_segments(const struct elf_image *image, bool executable, uint64_t *left, size_t need,
			elf_window_look *look, void *context)
{
	int r = -ENOENT;

	for (unsigned int i = 0; i < image->segment_count && r == -ENOENT; i++) {
		const struct elf_segment *segment = &image->segments[i];
		const uint64_t length = segment->file_size < *left ? segment->file_size : *left;
		struct elf_window window;

		if (segment->executable != executable)
			continue;
		*left -= length;
		elf_window_init(&window, &image->source, segment->offset, length);
		r = elf_window_pieces(&window, segment->vaddr, need, look, context);
		elf_window_fini(&window);
	}
	return r;
}

int elf_window_copy(const struct elf_window *window, uint64_t at, void *bytes, size_t room)
{
	if (at > window->length)
		return -ENODATA;
	if (room > window->length - at)
		room = (size_t)(window->length - at);
	if (elf_window_has(window, at, room)) {
		memcpy(bytes, window->bytes + (at - window->at), room);
		return (int)room;
	}
	int rc = window_read(window, at, bytes, room);
	return rc < 0 ? rc : (int)room;
}
