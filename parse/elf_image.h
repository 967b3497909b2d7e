/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an ELF file (x86-64, arm64; 64-bit little-endian) that a profiler needs: program
 * headers, section headers, sections read into private memory. Pure: bytes come through a callback,
 * never by mmap, since whoever owns the file may truncate or change it at any moment. Format:
 * ELF-64 Object File Format 1.5, gABI.
 */
#ifndef PARSE_ELF_IMAGE_H
#define PARSE_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads exactly `length` bytes at `offset` into `buffer`: 0, or a negative errno (-ENODATA past the
 * end). */
struct elf_source {
	int (*read)(void *context, uint64_t offset, void *buffer, size_t length);
	void *context;
	uint64_t size; /* bytes in the file */
};

/* An elf_source over a buffer in memory; `*buffer` must outlive it. */
struct elf_buffer {
	const void *data;
	size_t length;
};
struct elf_source elf_source_from_buffer(struct elf_buffer *buffer);

struct elf_segment {
	uint64_t offset, vaddr; /* in the file; as linked */
	uint64_t file_size, memory_size;
	bool executable;
};

struct elf_section {
	const char *name; /* owned by the image */
	uint32_t type;
	uint32_t link, info;
	uint64_t flags, vaddr, offset, size, entry_size;
};

/* Caps: a file that has more is read as if the rest were not there, and `truncated` is set. */
enum {
	ELF_IMAGE_SEGMENTS_MAX = 64,
	ELF_IMAGE_SECTIONS_MAX = 512,
	ELF_IMAGE_NAMES_BYTES_MAX = 64 * 1024,
	/* Go's linker writes four hashes of 20 characters with a slash between. */
	ELF_IMAGE_GO_BUILD_ID_BYTES = 96,
};

struct elf_image {
	struct elf_source source;
	uint16_t machine, type; /* EM_*, ET_* */
	uint64_t entry;
	struct elf_segment segments[ELF_IMAGE_SEGMENTS_MAX]; /* PT_LOAD only, in file order */
	unsigned int segment_count;
	struct elf_section *sections; /* section_count of them */
	unsigned int section_count;
	char *names;
	uint64_t eh_frame_hdr_vaddr, eh_frame_hdr_size; /* PT_GNU_EH_FRAME, 0 if none */
	uint8_t build_id[20];				/* GNU build id, cut at 20 bytes */
	unsigned int build_id_length;
	char go_build_id[ELF_IMAGE_GO_BUILD_ID_BYTES]; /* printable ASCII; "" if none, or longer */
	bool truncated;
};

/* Read headers, sections' names and the build id. 0; -ENOEXEC: not an ELF file of a kind that we
 * read, or one whose headers lie outside of it; -ENOMEM; or what the source returned. Section
 * headers that cannot be read are no error: the image then has segments only. */
int elf_image_init(struct elf_image *image, const struct elf_source *source);
void elf_image_fini(struct elf_image *image);

/* The first section of that name, or NULL. */
const struct elf_section *elf_image_find_section(const struct elf_image *image, const char *name);

/* A section's contents, SHF_COMPRESSED (zlib) undone, in memory that the caller frees. -ENOENT for
 * SHT_NOBITS and empty ones, -EFBIG if it is (or claims to inflate to) more than `cap` bytes,
 * -EBADMSG if it cannot be inflated. */
int elf_image_read_section(const struct elf_image *image, const struct elf_section *section,
			   size_t cap, uint8_t **data, size_t *length);

/* `size` bytes from a virtual address that must lie within one segment's file part; memory as
 * above. */
int elf_image_read_vaddr(const struct elf_image *image, uint64_t vaddr, uint64_t size, size_t cap,
			 uint8_t **data, size_t *length);

/* Virtual address (as linked) to file offset and back, by the PT_LOAD segments. false if no segment
 * has it. */
bool elf_image_vaddr_to_offset(const struct elf_image *image, uint64_t vaddr, uint64_t *offset);
bool elf_image_offset_to_vaddr(const struct elf_image *image, uint64_t offset, uint64_t *vaddr);

/* Is the virtual address in the segment's file part, and that executable? */
bool elf_segment_has_code(const struct elf_segment *segment, uint64_t vaddr);

/* The first segment of which that is so, or NULL. */
const struct elf_segment *elf_image_find_code(const struct elf_image *image, uint64_t vaddr);

#endif
