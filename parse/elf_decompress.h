/* SPDX-License-Identifier: Apache-2.0 */
/* Decompresses sections with SHF_COMPRESSED, by zlib or zstd (gABI, "Section Compression"). */
#ifndef PARSE_ELF_DECOMPRESS_H
#define PARSE_ELF_DECOMPRESS_H

#include <stddef.h>
#include <stdint.h>

struct elf_compression {
	uint32_t type; /* ELFCOMPRESS_* */
	uint64_t size; /* of the contents, when they are decompressed */
};

/* Decodes an Elf64_Chdr, with which a section of `section_bytes` bytes begins; its first 24 bytes
 * are there. Returns 0; -ENOENT: the section is empty; or -EBADMSG: the format is unknown, or the
 * section is too small for what it claims. */
int elf_compression_read(const uint8_t *header, uint64_t section_bytes,
			 struct elf_compression *compression);

/* Decompresses the contents of a section, an Elf64_Chdr and a stream, into memory that the
 * caller frees. Returns 0; -ENOENT: it is empty; -EFBIG: it claims to have more than `cap` bytes;
 * -EBADMSG: it cannot be decompressed, or has not the claimed length; -ENOMEM. */
int elf_decompress(const uint8_t *packed, size_t packed_length, size_t cap, uint8_t **data,
		   size_t *length);

#endif
