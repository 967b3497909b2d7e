/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stretch of a file, seen through a small buffer that moves over it: what is read in order needs
 * no memory of its own size, and fresh memory costs more than reading does. Bytes come through an
 * elf_source, never by mmap.
 */
#ifndef PARSE_ELF_WINDOW_H
#define PARSE_ELF_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "common/cursor.h"
#include "parse/elf_image.h"

enum {
	ELF_WINDOW_BYTES = 64 << 10, /* so that it stays in a second-level cache */
};

struct elf_window {
	struct elf_source source;
	uint64_t offset, length; /* of the stretch, in the file */
	uint64_t at;		 /* where in the stretch the buffer begins */
	uint8_t *buffer;
	size_t filled, allocated;
	size_t step; /* bytes to read at a time; ELF_WINDOW_BYTES, or what a test wants */
};

/* Over `length` bytes of the source from `offset` on. Reads nothing. */
void elf_window_init(struct elf_window *window, const struct elf_source *source, uint64_t offset,
		     uint64_t length);

/* Over a section's contents, SHF_COMPRESSED undone. Errors as elf_image_read_section()'s. */
int elf_window_init_section(struct elf_window *window, const struct elf_image *image,
			    const struct elf_section *section, size_t cap);
void elf_window_fini(struct elf_window *window);

/* A cursor at `at`, over `need` bytes or more of the stretch; it holds until the next call. 0;
 * -ENODATA: the stretch, or the file, has not so many; -ENOMEM; or what the source returned. */
int elf_window_get(struct elf_window *window, uint64_t at, uint64_t need, struct cursor *c);

/* A copy of bytes from anywhere, which leaves cursors as they are: as many of `room` as the stretch
 * has from `at` on. Their number, or a negative errno. */
int elf_window_copy(const struct elf_window *window, uint64_t at, void *bytes, size_t room);

#endif
