/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the blocks of files that were read last, for parsers that read a few bytes here and there.
 *
 * How this works. Files are divided into blocks of 4 KiB. Each block has one place in the cache, by
 * the numbers of file and block, so that a lookup is one comparison. A read of a whole block or
 * more goes past the cache.
 *
 * Example: 512 places. A read of 20 bytes at 0x41ff8 of the file 3 is in the blocks 0x41 and 0x42,
 * which have the places (0x41 + 3) % 512 = 68 and 69. If these hold the block 0x241 of file 3 and
 * the block 0x42 of file 3, only the first one is read from the file.
 *
 * The debug information of a program of 3 MiB is mostly in 512 blocks: with 64, a fourth of the
 * time of a lookup at a random address was that of reads. Memory that is not needed is not touched.
 *
 * What is in the cache is older than the file. Parsers of files that may change at any moment do
 * not depend on that.
 */
#ifndef PARSE_ELF_CACHE_H
#define PARSE_ELF_CACHE_H

#include <stdint.h>

#include "parse/elf_image.h"

enum {
	ELF_CACHE_BLOCKS = 512,
	ELF_CACHE_BLOCK_BYTES = 4096,
};

/* All zeros: nothing is kept yet. */
struct elf_cache {
	uint64_t files; /* that have numbers */
	/* The file that is read now. */
	struct elf_source source;
	uint64_t file;
	struct {
		uint64_t file; /* 0: the place is free */
		uint64_t block;
		uint32_t filled; /* bytes of it: fewer at the end of the file */
	} places[ELF_CACHE_BLOCKS];
	uint8_t bytes[ELF_CACHE_BLOCKS][ELF_CACHE_BLOCK_BYTES];
};

/* Returns a source that reads through the cache, until the next call. `file` is the number of the
 * file, which the first call sets if it is 0. */
struct elf_source elf_cache_source(struct elf_cache *cache, const struct elf_source *source,
				   uint64_t *file);

#endif
