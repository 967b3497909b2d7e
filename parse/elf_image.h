/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the parts of an ELF file that a profiler needs: segments, sections, build ids. 64-bit
 * little-endian files for x86-64 and arm64. Format: ELF-64 Object File Format 1.5, System V gABI.
 * Pure. Bytes come through a callback into private memory, never by mmap, because the owner of the
 * file may truncate or change it at any moment.
 */
#ifndef PARSE_ELF_IMAGE_H
#define PARSE_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the bytes come from. `read` copies exactly `length` bytes at `offset`. It returns 0,
 * -ENODATA past the end, or another negative errno. */
struct elf_source {
	int (*read)(void *context, uint64_t offset, void *buffer, size_t length);
	void *context;
	uint64_t size; /* of the file in bytes */
};

/* A source that reads from memory. `*buffer` must outlive it. */
struct elf_buffer {
	const void *data;
	size_t length;
};
struct elf_source elf_source_from_buffer(struct elf_buffer *buffer);

struct elf_segment {
	uint64_t offset, vaddr; /* in the file; the virtual address without load bias */
	uint64_t file_size, memory_size;
	bool executable;
};

struct elf_section {
	const char *name; /* owned by the image */
	uint32_t type;
	uint32_t link, info;
	uint64_t flags, vaddr, offset, size, entry_size;
};

/* Limits. A file that has more is read as if the rest did not exist, and `truncated` is set. An
 * executable or library has about 10 segments and 40 sections. */
enum {
	ELF_IMAGE_SEGMENTS_MAX = 64,
	ELF_IMAGE_SECTIONS_MAX = 512,
	ELF_IMAGE_NAMES_BYTES_MAX = 64 * 1024,
	/* Go's linker writes four hashes of 20 characters, separated by slashes, and a NUL. */
	ELF_IMAGE_GO_BUILD_ID_BYTES = 96,
};

struct elf_image {
	struct elf_source source;
	uint16_t machine, type; /* EM_*, ET_* */
	uint64_t entry;
	struct elf_segment
	    segments[ELF_IMAGE_SEGMENTS_MAX]; /* PT_LOAD only, in the order of the file */
	unsigned int segment_count;
	struct elf_section *sections; /* section_count of them */
	unsigned int section_count;
	char *names;
	uint64_t eh_frame_hdr_vaddr, eh_frame_hdr_size; /* PT_GNU_EH_FRAME, 0 if none */
	uint8_t build_id[20];				/* GNU build id, cut at 20 bytes */
	unsigned int build_id_length;
	char go_build_id[ELF_IMAGE_GO_BUILD_ID_BYTES]; /* printable ASCII; "" if none or too long */
	bool truncated;
};

/* Takes the first build id of each kind from ELF notes that are aligned to `align` bytes, unless
 * the image has one. Malformed notes end the search. */
void elf_image_take_build_ids(struct elf_image *image, const uint8_t *notes, size_t length,
			      uint64_t align);

/* Reads the headers, the names of the sections and the build ids. Returns 0; -ENOEXEC: not an ELF
 * file of a supported kind, or its headers are outside of the file; -ENOMEM; or the source's error.
 * If the section headers cannot be read, the image has no sections, which is not an error. */
int elf_image_init(struct elf_image *image, const struct elf_source *source);

/* Does the same with a file that no process can map, too (ET_REL): the common file of dwz has only
 * sections. */
int elf_image_init_sections(struct elf_image *image, const struct elf_source *source);
void elf_image_fini(struct elf_image *image);

/* Returns whether the file is an ELF file of 32 bits, which is not supported. */
bool elf_image_is_32_bit(const struct elf_source *source);

/* Returns the first section with this name, or NULL. */
const struct elf_section *elf_image_find_section(const struct elf_image *image, const char *name);

/* Returns the virtual address of the first section with this name, or 0. */
uint64_t elf_image_section_vaddr(const struct elf_image *image, const char *name);

/* Reads the contents of a section, decompressed (SHF_COMPRESSED), into memory that the caller
 * frees. Returns 0; -ENOENT: it is empty or SHT_NOBITS; -EFBIG: it has, or claims to have, more
 * than `cap` bytes; -EBADMSG: it cannot be decompressed; -ENOMEM; or the source's error. */
int elf_image_read_section(const struct elf_image *image, const struct elf_section *section,
			   size_t cap, uint8_t **data, size_t *length);

/* Reads `size` bytes at a virtual address into memory that the caller frees. They must be in the
 * file's part of one segment, otherwise -ENOENT. Other errors as above. */
int elf_image_read_vaddr(const struct elf_image *image, uint64_t vaddr, uint64_t size, size_t cap,
			 uint8_t **data, size_t *length);

/* Returns the first segment whose file part has [vaddr, vaddr + size), or NULL; `size` is not 0. */
const struct elf_segment *elf_image_find_segment(const struct elf_image *image, uint64_t vaddr,
						 uint64_t size);

/* Converts a virtual address to a file offset, by the PT_LOAD segments. Returns false if it is in
 * no segment. */
bool elf_image_vaddr_to_offset(const struct elf_image *image, uint64_t vaddr, uint64_t *offset);

/* Returns whether the segment is executable, with the virtual address in its file part. */
bool elf_segment_has_code(const struct elf_segment *segment, uint64_t vaddr);

/* Returns the first segment that has code at the virtual address, or NULL. */
const struct elf_segment *elf_image_find_code(const struct elf_image *image, uint64_t vaddr);

#endif
