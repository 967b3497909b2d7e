/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/elf_decompress.h"

enum {
	TEXT_STEP = 128, /* bytes of a text that are read at once */
	/* Bytes of a large compressed section that are kept in memory, at least. A lookup reads
	 * .debug_info everywhere in a unit, and units of C++ have 1 MiB. */
	KEEP_BYTES = 512 << 10,
	KEEP_INFO_BYTES = 4 << 20,
};

static const char *const section_names[DWARF_SECTION_COUNT] = {
    [DWARF_INFO] = ".debug_info",	  [DWARF_ABBREV] = ".debug_abbrev",
    [DWARF_STR] = ".debug_str",		  [DWARF_STR_OFFSETS] = ".debug_str_offsets",
    [DWARF_LINE] = ".debug_line",	  [DWARF_LINE_STR] = ".debug_line_str",
    [DWARF_ADDR] = ".debug_addr",	  [DWARF_RANGES] = ".debug_ranges",
    [DWARF_RNGLISTS] = ".debug_rnglists",
};
/* Of a split file. It has no lines that are needed here. */
static const char *const split_names[DWARF_SECTION_COUNT] = {
    [DWARF_INFO] = ".debug_info.dwo",	      [DWARF_ABBREV] = ".debug_abbrev.dwo",
    [DWARF_STR] = ".debug_str.dwo",	      [DWARF_STR_OFFSETS] = ".debug_str_offsets.dwo",
    [DWARF_RNGLISTS] = ".debug_rnglists.dwo", [DWARF_CU_INDEX] = ".debug_cu_index",
};

/* A compressed section, before it is decompressed. */
struct compressed {
	const struct elf_section *section; /* NULL: there is none */
	struct elf_compression compression;
	size_t keep_bytes; /* of it that are in memory at once, or 0: all */
};

static int compressed_find(struct compressed *compressed, const struct elf_image *image,
			   const struct elf_section *section)
{
	uint8_t header[sizeof(Elf64_Chdr)];
	int r = section->size < sizeof(header)
		    ? -EBADMSG
		    : image->source.read(image->source.context, section->offset, header,
					 sizeof(header));
	if (r == 0)
		r = elf_compression_read(header, section->size, &compressed->compression);
	if (r == 0 && compressed->compression.size > ELF_PACKED_BYTES_MAX)
		r = -EFBIG;
	if (r == 0)
		compressed->section = section;
	/* It is as good as missing. */
	return r == -ENOENT ? 0 : r;
}

/* Finds a section, which may be compressed. */
static int section_find(struct dwarf_section *section, struct compressed *compressed,
			const struct elf_image *image, const char *name)
{
	const struct elf_section *found = name ? elf_image_find_section(image, name) : NULL;

	if (!found || found->type == SHT_NOBITS || found->size == 0)
		return 0;
	if (found->flags & SHF_COMPRESSED)
		return compressed_find(compressed, image, found);
	section->offset = found->offset;
	section->size = found->size;
	return 0;
}

/* Returns how much of a section is kept at least: not more than a quarter, and not nothing. */
static size_t keep_least(unsigned int kind, uint64_t size)
{
	const size_t least = kind == DWARF_INFO ? KEEP_INFO_BYTES : KEEP_BYTES;

	return size / 4 < least ? (size_t)(size / 4) + 1 : least;
}

/* Chooses the largest sections of which only parts are kept in memory, until all fits. What is left
 * then goes to .debug_info. Returns 0; -EFBIG: it does not fit even so. */
static int choose_packed(struct compressed all[DWARF_SECTION_COUNT], size_t cap)
{
	uint64_t total = 0;

	for (unsigned int i = 0; i < DWARF_SECTION_COUNT; i++)
		total += all[i].compression.size;
	while (total > cap) {
		unsigned int largest = DWARF_SECTION_COUNT;

		for (unsigned int i = 0; i < DWARF_SECTION_COUNT; i++) {
			if (all[i].section && !all[i].keep_bytes &&
			    all[i].compression.type == ELFCOMPRESS_ZLIB &&
			    (largest == DWARF_SECTION_COUNT ||
			     all[i].compression.size > all[largest].compression.size))
				largest = i;
		}
		if (largest == DWARF_SECTION_COUNT)
			return -EFBIG;
		const uint64_t size = all[largest].compression.size;
		all[largest].keep_bytes = keep_least(largest, size);
		total -= size - all[largest].keep_bytes;
	}
	if (all[DWARF_INFO].keep_bytes)
		all[DWARF_INFO].keep_bytes += cap - (size_t)total;
	return 0;
}

/* Decompresses a section. */
static int section_unpack(struct dwarf_file *file, struct dwarf_section *section,
			  const struct elf_image *image, const struct elf_section *found,
			  size_t cap)
{
	uint8_t *contents;
	size_t length;
	const int r =
	    elf_image_read_section(image, found, cap - file->reserved, &contents, &length);

	if (r < 0)
		return r;
	section->contents = (struct elf_buffer){contents, length};
	section->size = length;
	file->reserved += length;
	return 0;
}

/* Prepares to decompress parts of a section. */
static int section_open_packed(struct dwarf_file *file, struct dwarf_section *section,
			       const struct elf_image *image, const struct elf_section *found,
			       size_t keep_bytes)
{
	const int r = elf_packed_open(image, found, keep_bytes, &section->packed);

	if (r < 0)
		return r;
	section->size = elf_packed_length(section->packed);
	file->reserved += keep_bytes;
	return 0;
}

static int sections_read(struct dwarf_file *file, const struct elf_image *image,
			 const char *const names[DWARF_SECTION_COUNT], size_t cap)
{
	struct compressed all[DWARF_SECTION_COUNT] = {0};
	int r = 0;

	for (unsigned int kind = 0; kind < DWARF_SECTION_COUNT && r == 0; kind++)
		r = section_find(&file->sections[kind], &all[kind], image, names[kind]);
	if (r == 0)
		r = choose_packed(all, cap);
	for (unsigned int kind = 0; kind < DWARF_SECTION_COUNT && r == 0; kind++) {
		struct dwarf_section *section = &file->sections[kind];

		if (all[kind].keep_bytes)
			r = section_open_packed(file, section, image, all[kind].section,
						all[kind].keep_bytes);
		else if (all[kind].section)
			r = section_unpack(file, section, image, all[kind].section, cap);
	}
	return r;
}

static int sections_open(struct dwarf_file *file, const struct elf_image *image,
			 const char *const names[DWARF_SECTION_COUNT], size_t cap)
{
	int r = sections_read(file, image, names, cap);

	if (r == 0 && !(file->sections[DWARF_INFO].size && file->sections[DWARF_ABBREV].size))
		r = -ENOENT;
	if (r < 0)
		dwarf_file_close(file);
	return r;
}

int dwarf_file_open(struct dwarf_file *file, const struct elf_image *image, size_t cap)
{
	*file = (struct dwarf_file){.code_start = UINT64_MAX};
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *segment = &image->segments[i];

		/* The segments of a debug file have no contents. */
		if (!segment->executable || segment->memory_size > UINT64_MAX - segment->vaddr)
			continue;
		if (segment->vaddr < file->code_start)
			file->code_start = segment->vaddr;
		if (segment->vaddr + segment->memory_size > file->code_end)
			file->code_end = segment->vaddr + segment->memory_size;
	}
	if (file->code_end <= file->code_start || file->code_end - file->code_start > UINT32_MAX)
		return -ENOENT;
	return sections_open(file, image, section_names, cap);
}

int dwarf_file_open_alternate(struct dwarf_file *file, const struct elf_image *image, size_t cap)
{
	*file = (struct dwarf_file){0};
	return sections_open(file, image, section_names, cap);
}

void dwarf_file_set_alternate(struct dwarf_file *file, const struct dwarf_file *alternate)
{
	file->sections[DWARF_ALTERNATE_STR] = alternate->sections[DWARF_STR];
	file->sections[DWARF_ALTERNATE_STR].is_other = true;
}

int dwarf_file_open_split(struct dwarf_file *file, const struct elf_image *image,
			  const struct dwarf_file *main, size_t cap)
{
	static const enum dwarf_section_kind mains[] = {DWARF_ADDR, DWARF_RANGES};

	*file = (struct dwarf_file){.code_start = main->code_start, .code_end = main->code_end};
	const int r = sections_open(file, image, split_names, cap);
	for (size_t i = 0; r == 0 && i < sizeof(mains) / sizeof(mains[0]); i++) {
		file->sections[mains[i]] = main->sections[mains[i]];
		file->sections[mains[i]].is_other = true;
	}
	return r;
}

void dwarf_file_close(struct dwarf_file *file)
{
	for (unsigned int kind = 0; kind < DWARF_SECTION_COUNT; kind++) {
		if (file->sections[kind].is_other)
			continue;
		free((void *)file->sections[kind].contents.data);
		elf_packed_free(file->sections[kind].packed);
	}
	*file = (struct dwarf_file){0};
}

/* Returns what reads a compressed section of the file itself, or NULL. */
static struct elf_packed *own_packed(const struct dwarf_file *file, unsigned int kind)
{
	return file->sections[kind].is_other ? NULL : file->sections[kind].packed;
}

size_t dwarf_file_bytes(const struct dwarf_file *file)
{
	size_t bytes = 0;

	for (unsigned int kind = 0; kind < DWARF_SECTION_COUNT; kind++) {
		if (!file->sections[kind].is_other)
			bytes += file->sections[kind].contents.length;
		if (own_packed(file, kind))
			bytes += elf_packed_bytes(own_packed(file, kind));
	}
	return bytes;
}

/* Goes on with the index of a section of the file itself, until its first bytes can be read.
 * Returns false if there is more to be done. */
static bool section_index(struct dwarf_reader *reader, unsigned int kind, uint64_t until)
{
	struct elf_packed *packed = own_packed(reader->file, kind);

	return !packed || elf_packed_index(packed, reader->source, until, &reader->left) != -EAGAIN;
}

bool dwarf_file_index(struct dwarf_reader *reader)
{
	struct dwarf_file *file = reader->file;

	for (unsigned int kind = 0; kind < DWARF_SECTION_COUNT && !file->is_indexed; kind++) {
		if (kind != DWARF_INFO && !section_index(reader, kind, UINT64_MAX))
			return false;
	}
	file->is_indexed = true;
	return true;
}

bool dwarf_file_index_info(struct dwarf_reader *reader, uint64_t until)
{
	return section_index(reader, DWARF_INFO, until);
}

bool dwarf_pay(struct dwarf_reader *reader, uint64_t cost)
{
	if (cost > reader->left) {
		reader->left = 0;
		return false;
	}
	reader->left -= cost;
	return true;
}

static int nothing_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	(void)context;
	(void)offset;
	(void)buffer;
	(void)length;
	return -ENODATA;
}

/* Returns where the bytes of a section come from. They start at section->offset there. */
static struct elf_source section_source(const struct dwarf_reader *reader,
					enum dwarf_section_kind kind)
{
	struct dwarf_section *section = &reader->file->sections[kind];
	const struct elf_source *source = section->is_other ? reader->other : reader->source;

	if (section->contents.data)
		return elf_source_from_buffer(&section->contents);
	if (!source)
		return (struct elf_source){.read = nothing_read};
	return section->packed ? elf_packed_source(section->packed, source, &reader->file->unpaid)
			       : *source;
}

bool dwarf_read(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t offset,
		void *bytes, size_t length)
{
	const struct dwarf_section *section = &reader->file->sections[kind];
	const struct elf_source source = section_source(reader, kind);
	uint64_t from;

	return offset <= section->size && length <= section->size - offset &&
	       !__builtin_add_overflow(section->offset, offset, &from) &&
	       dwarf_pay(reader, DWARF_READ_COST + length) &&
	       source.read(source.context, from, bytes, length) == 0;
}

bool dwarf_read_number(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t offset,
		       unsigned int size, uint64_t *number)
{
	uint64_t value = 0;

	if (size > sizeof(value) || !dwarf_read(reader, kind, offset, &value, size))
		return false;
	*number = value;
	return true;
}

bool dwarf_read_indexed(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t base,
			uint64_t index, unsigned int size, uint64_t *number)
{
	uint64_t at;

	return !__builtin_mul_overflow(index, size, &at) &&
	       !__builtin_add_overflow(at, base, &at) &&
	       dwarf_read_number(reader, kind, at, size, number);
}

void dwarf_read_text(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t offset,
		     char *text, size_t room)
{
	const uint64_t size = reader->file->sections[kind].size;
	size_t length = 0;

	while (length + 1 < room && offset < size) {
		size_t part = room - 1 - length < TEXT_STEP ? room - 1 - length : TEXT_STEP;

		if (part > size - offset)
			part = (size_t)(size - offset);
		if (!dwarf_read(reader, kind, offset, text + length, part)) {
			length = 0;
			break;
		}
		if (memchr(text + length, 0, part))
			return;
		length += part;
		offset += part;
	}
	text[length] = 0;
}

void dwarf_window_init(struct dwarf_reader *reader, enum dwarf_section_kind kind, size_t step,
		       struct elf_window *window)
{
	const struct dwarf_section *section = &reader->file->sections[kind];

	if (section->contents.data) {
		elf_window_init_contents(window, section->contents.data, section->contents.length);
	} else {
		const struct elf_source source = section_source(reader, kind);

		elf_window_init(window, &source, section->offset, section->size);
	}
	window->step = step;
}
