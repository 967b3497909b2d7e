/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section .gnu_debugdata of a stripped file: an ELF file with the symbols that are not
 * exported, compressed by xz (GDB manual, "MiniDebugInfo"; the .xz file format 1.2.0).
 * Distributions of the Red Hat family give it to all programs and libraries. Pure.
 *
 * Anybody may have written it, so the memory for decompressing has a limit, and the contents have a
 * cap. The memory for the contents grows with what has been decompressed, since nothing that can be
 * trusted says how long they are.
 */
#ifndef PARSE_DEBUG_DATA_H
#define PARSE_DEBUG_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

enum {
	/* Bytes that the section may have, and its contents. Libraries with 30,000 functions have
	 * 2 MB of symbols and names. */
	DEBUG_DATA_PACKED_BYTES_MAX = 4 << 20,
	DEBUG_DATA_BYTES_MAX = 8 << 20,
	/* Bytes of memory for decompressing. The usual level of xz, 6, needs 9 MiB, most of which
	 * is not touched for small contents. */
	DEBUG_DATA_MEMORY_BYTES_MAX = 20 << 20,
};

/* Reads and decompresses the section into memory that the caller frees. Returns 0; -ENOENT: there
 * is none, or it is empty; -EFBIG: it, or its contents, or the memory that it needs, exceeds a
 * limit; -EBADMSG: it cannot be decompressed; -ENOMEM; or the source's error. */
int debug_data_read(const struct elf_image *image, uint8_t **data, size_t *length);

#endif
