/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A section that is compressed by zlib (SHF_COMPRESSED), of which parts are read without
 * decompressing all of it. See elf_packed.c for how this works. Pure: bytes come through an
 * elf_source, and may be forged or change at any moment.
 *
 * Example: .debug_info has 100 MiB, which are 35 MiB in the file. To keep them in memory would take
 * 100 MiB; this takes 8 MiB and what is kept of that, and a read of the rest 0.5 ms.
 */
#ifndef PARSE_ELF_PACKED_H
#define PARSE_ELF_PACKED_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

enum {
	/* Bytes that such a section may have when it is decompressed. */
	ELF_PACKED_BYTES_MAX = 512 << 20,
	/* How far reads may be ahead of the index. */
	ELF_PACKED_AHEAD_MAX = 1 << 20,
};

struct elf_packed;

/* Finds what is needed to read the section. `keep_bytes` of decompressed ones stay in memory, or
 * more for as long as a read needs them. Returns 0; -EFBIG: it is too large, or compressed by
 * something else; -EBADMSG: its header is forged; -ENOMEM; or the source's error. */
int elf_packed_open(const struct elf_image *image, const struct elf_section *section,
		    size_t keep_bytes, struct elf_packed **packed);
void elf_packed_free(struct elf_packed *packed);

/* Returns how many bytes the section has when it is decompressed, as its header says. */
uint64_t elf_packed_length(const struct elf_packed *packed);

/* Goes on with the index that all reads need, until the first `until` bytes can be read or `*left`
 * is used up, from which the cost is subtracted: about one for each 3 ns. Returns 0; -EAGAIN; or
 * why the section cannot be read, now and at each further call: -EBADMSG: it cannot be
 * decompressed, or has not the length that its header says, which its end shows; -EFBIG: the index
 * would be too large; -ENOMEM; or the source's error. */
int elf_packed_index(struct elf_packed *packed, const struct elf_source *source, uint64_t until,
		     uint64_t *left);

/* Returns a source of the decompressed bytes, until the next call. A read that is a little ahead of
 * the index goes on with it, and of what is further away it returns -EAGAIN. The cost of its reads
 * is added to `*unpaid`. `source` is that of the file. */
struct elf_source elf_packed_source(struct elf_packed *packed, const struct elf_source *source,
				    uint64_t *unpaid);

/* Returns the memory that it takes, in bytes. */
size_t elf_packed_bytes(const struct elf_packed *packed);

#endif
