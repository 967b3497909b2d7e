/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of a file, read through a small buffer that moves over it. Bytes come through an
 * elf_source, never by mmap. See elf_window.c for how this works.
 */
#ifndef PARSE_ELF_WINDOW_H
#define PARSE_ELF_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cursor.h"
#include "parse/elf_image.h"

enum {
	ELF_WINDOW_BYTES = 64 << 10, /* small enough to stay in a second-level cache */
};

struct elf_window {
	struct elf_source source;
	const uint8_t *contents; /* all of the range, which is in memory; NULL: it is read */
	uint64_t offset, length; /* of the range, in the file */
	uint64_t at;		 /* the offset in the range at which `bytes` start */
	const uint8_t *bytes;	 /* in `contents`, or in the buffer */
	size_t filled;		 /* how many they are */
	uint8_t *buffer;
	size_t allocated;
	size_t step; /* bytes per read: ELF_WINDOW_BYTES, unless the caller sets another value */
};

/* Starts a window over `length` bytes of the source from `offset` on. Nothing is read yet. */
void elf_window_init(struct elf_window *window, const struct elf_source *source, uint64_t offset,
		     uint64_t length);

/* Starts a window over a range that is in memory, and stays there: bytes are not copied. */
void elf_window_init_contents(struct elf_window *window, const void *contents, size_t length);

/* Starts a window over the contents of a section. A compressed one is decompressed as a whole now.
 * Returns what elf_image_read_section() returns. */
int elf_window_init_section(struct elf_window *window, const struct elf_image *image,
			    const struct elf_section *section, size_t cap);
void elf_window_fini(struct elf_window *window);

/* Ends the range earlier. To be called before anything is read. */
void elf_window_limit(struct elf_window *window, uint64_t length);

/* Returns whether [at, at + need) is at hand. */
static inline bool elf_window_has(const struct elf_window *window, uint64_t at, uint64_t need)
{
	return at >= window->at && at - window->at <= window->filled &&
	       need <= window->filled - (at - window->at);
}

/* Moves to `at`, and reads `need` bytes or one step, whichever is more. Returns as
 * elf_window_get(). */
int elf_window_move(struct elf_window *window, uint64_t at, uint64_t need);

/* Provides a cursor over `need` bytes or more, from the offset `at` of the range on. It
 * is valid until the next call. Returns 0; -ENODATA: the range or the file ends before;
 * -ENOMEM; or the source's error. */
static inline int elf_window_get(struct elf_window *window, uint64_t at, uint64_t need,
				 struct cursor *c)
{
	const int r = elf_window_has(window, at, need) ? 0 : elf_window_move(window, at, need);

	if (r == 0)
		*c = cursor_init(window->bytes + (at - window->at),
				 window->filled - (size_t)(at - window->at));
	return r;
}

/* Looks at a piece of a range or segment, which starts at the offset or virtual address `at`.
 * Returns -ENOENT to go on. */
typedef int elf_window_look(void *context, uint64_t at, struct cursor piece);

/* Passes all of the range to `look`, in pieces that overlap by `need` - 1 bytes, so that whatever
 * has `need` bytes is in one of them as a whole. The first byte has the offset `base`. Returns what
 * `look` has returned at last; -ENOENT: it went on to the end of the range or of the file; -ENOMEM;
 * or the source's error. */
int elf_window_pieces(struct elf_window *window, uint64_t base, size_t need, elf_window_look *look,
		      void *context);

/* Does the same with the segments of an image that are executable or are not, but with no more than
 * `*left` bytes of them, from which those are subtracted. */
int elf_window_segments(const struct elf_image *image, bool executable, uint64_t *left, size_t need,
			elf_window_look *look, void *context);

/* Copies up to `room` bytes from the offset `at` of the range, without moving the window, so that
 * cursors stay valid. Returns their number, which is smaller at the end of the range, or an
 * error. */
int elf_window_copy(const struct elf_window *window, uint64_t at, void *bytes, size_t room);

#endif
