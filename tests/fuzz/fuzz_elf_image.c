/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the ELF reader. The input is a file: its headers are read, and then everything that they
 * refer to. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "parse/debug_link.h"
#include "parse/elf_image.h"
#include "parse/elf_lookup.h"

enum {
	CAP = 1 << 20,
	SECTIONS_READ_MAX = 32
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

/* Reads every byte, so that a length that is too large is detected. */
static void check_bytes(const uint8_t *bytes, size_t length)
{
	uint8_t sum = 0;

	check(length > 0 && length <= CAP);
	for (size_t i = 0; i < length; i++)
		sum ^= bytes[i];
	*(volatile uint8_t *)&sum = sum;
}

static void check_sections(const struct elf_image *image)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *found =
		    elf_image_find_section(image, image->sections[i].name);
		_cleanup_free_ uint8_t *bytes = NULL;
		size_t length;

		check(found && found <= &image->sections[i]);
		if (i < SECTIONS_READ_MAX &&
		    elf_image_read_section(image, &image->sections[i], CAP, &bytes, &length) == 0)
			check_bytes(bytes, length);
	}
}

static void check_segments(const struct elf_image *image)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *s = &image->segments[i];
		_cleanup_free_ uint8_t *bytes = NULL;
		uint64_t offset;
		size_t length;

		check(s->offset + s->file_size >= s->offset && s->vaddr + s->file_size >= s->vaddr);
		if (s->file_size == 0)
			continue;
		check(elf_image_vaddr_to_offset(image, s->vaddr, &offset));
		if (elf_image_read_vaddr(image, s->vaddr, s->file_size, CAP, &bytes, &length) == 0)
			check_bytes(bytes, length);
	}
}

/* A symbol that is found must be one that the file defines. */
static void check_lookup(const struct elf_image *image)
{
	struct elf_lookup lookup;
	struct elf_symbol symbol;

	check(elf_lookup_init(&lookup, image) == 0);
	check(elf_lookup_exported(&lookup, "main", &symbol) < 0 || symbol.section);
	/* A compressed table may have a thousand times the size of the input. */
	if (lookup.symbols && lookup.strings && lookup.symbols->size <= CAP &&
	    lookup.strings->size <= CAP)
		check(elf_lookup_local(&lookup, "main", &symbol) < 0 || symbol.section);
	elf_lookup_fini(&lookup);
}

static void check_debug_link(const struct elf_image *image)
{
	struct debug_alternate alternate;
	struct debug_link link;

	if (debug_link_read(image, &link) == 0)
		check(link.name[0] && memchr(link.name, 0, sizeof(link.name)));
	if (debug_alternate_read(image, &alternate) < 0)
		return;
	check(memchr(alternate.name, 0, sizeof(alternate.name)) && !strchr(alternate.name, '/'));
	check(alternate.build_id_length > 0 &&
	      alternate.build_id_length <= sizeof(alternate.build_id));
	check(!debug_alternate_is(&alternate, image) || image->build_id_length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_buffer buffer = {data, size};
	struct elf_source source = elf_source_from_buffer(&buffer);
	_cleanup_free_ uint8_t *header = NULL;
	struct elf_image image;
	size_t length;

	if (elf_image_init(&image, &source) < 0)
		return 0;
	check(image.segment_count <= ELF_IMAGE_SEGMENTS_MAX);
	check(image.section_count <= ELF_IMAGE_SECTIONS_MAX);
	check(image.build_id_length <= sizeof(image.build_id));
	check(memchr(image.go_build_id, 0, sizeof(image.go_build_id)) != NULL);
	check_sections(&image);
	check_segments(&image);
	check_lookup(&image);
	check_debug_link(&image);
	if (elf_image_read_vaddr(&image, image.eh_frame_hdr_vaddr, image.eh_frame_hdr_size, CAP,
				 &header, &length) == 0)
		check_bytes(header, length);
	elf_image_fini(&image);
	return 0;
}
