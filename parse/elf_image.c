/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ELF files.
 *
 * How this works: the ELF header says where two tables are. The program headers list segments:
 * which part of the file is mapped at which address (PT_LOAD), and where notes and .eh_frame_hdr
 * are. The section headers list sections, with names in a string table of their own. Segments are
 * required, because the kernel uses them; sections are optional, because a stripped file may lack
 * them.
 *
 * All of it may be forged, so every offset and count is checked against the size of the file before
 * anything is allocated, and each table has a limit. Counts that do not fit into 16 bits are in
 * section header 0. Names are checked when they are read: an offset is valid if a NUL follows in
 * the table, so that every name is a C string.
 *
 * Example: libfoo.so has the program header {PT_LOAD, offset 0x1000, vaddr 0x2000, file_size 0x500,
 * executable}. The virtual address 0x2010 is file offset 0x1010, and code. The PT_NOTE segment has
 * {name "GNU", type 3, 20 bytes}: the build id.
 *
 * A broken note or section costs only itself; a broken program header table makes the file invalid.
 */
#include "parse/elf_image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_decompress.h"

enum {
	/* Program headers of any type. A forged table of 65,535 would take 3.6 MB. */
	PROGRAM_HEADERS_MAX = 512,
	/* Real files have one or two note segments with a few hundred bytes. */
	NOTE_SEGMENTS_MAX = 16,
	NOTE_BYTES_MAX = 64 * 1024,
	/* ELF_NOTE_GOBUILDID_TAG of Go's linker (cmd/link/internal/ld/elf.go). */
	NOTE_GO_BUILD_ID = 4,
};

static const char go_note_name[4] = "Go"; /* padded to 4 bytes */

/* What the ELF header says about the tables that follow. */
struct header {
	uint64_t phoff, shoff;
	uint64_t phnum, shnum; /* after extended numbering */
	uint64_t names_index;  /* the section with the names of sections; 0 if none */
	uint16_t phentsize, shentsize;
};

/* A section header as it is in the file. */
struct raw_section {
	uint32_t name;
	struct elf_section section;
};

static int buffer_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	const struct elf_buffer *from = context;
	struct cursor c = cursor_init(from->data, from->length);

	cursor_seek(&c, offset);
	const uint8_t *bytes = cursor_take(&c, length);
	if (!bytes)
		return -ENODATA;
	if (length)
		memcpy(buffer, bytes, length);
	return 0;
}

struct elf_source elf_source_from_buffer(struct elf_buffer *buffer)
{
	return (struct elf_source){.read = buffer_read, .context = buffer, .size = buffer->length};
}

/* Returns whether [offset, offset + size) is in the file. */
static bool source_has(const struct elf_source *source, uint64_t offset, uint64_t size)
{
	return offset <= source->size && size <= source->size - offset;
}

/* Returns how many of `count` entries of `entry_size` bytes the file has from `offset` on. */
static uint64_t source_fit(const struct elf_source *source, uint64_t offset, uint64_t count,
			   uint64_t entry_size)
{
	if (offset >= source->size)
		return 0;
	uint64_t room = (source->size - offset) / entry_size;
	return count < room ? count : room;
}

/* Reads `size` bytes of the file into new memory, and adds a zero byte. */
static int source_load(const struct elf_source *source, uint64_t offset, uint64_t size,
		       uint8_t **data)
{
	if (!source_has(source, offset, size))
		return -ENODATA;
	if (size >= SIZE_MAX)
		return -EFBIG;

	_cleanup_free_ uint8_t *bytes = malloc((size_t)size + 1);
	if (!bytes)
		return -ENOMEM;
	int rc = source->read(source->context, offset, bytes, (size_t)size);
	if (rc < 0)
		return rc;
	bytes[size] = 0;
	*data = TAKE_PTR(bytes);
	return 0;
}

static void raw_section_decode(struct cursor *c, struct raw_section *raw)
{
	raw->name = cursor_u32(c);
	raw->section.name = "";
	raw->section.type = cursor_u32(c);
	raw->section.flags = cursor_u64(c);
	raw->section.vaddr = cursor_u64(c);
	raw->section.offset = cursor_u64(c);
	raw->section.size = cursor_u64(c);
	raw->section.link = cursor_u32(c);
	raw->section.info = cursor_u32(c);
	cursor_skip(c, sizeof(uint64_t)); /* sh_addralign */
	raw->section.entry_size = cursor_u64(c);
}

/* Reads a single section header. */
static int raw_section_read(const struct elf_source *source, const struct header *header,
			    uint64_t index, struct raw_section *raw)
{
	uint8_t bytes[sizeof(Elf64_Shdr)];
	uint64_t offset;

	if (__builtin_mul_overflow(index, sizeof(bytes), &offset) ||
	    __builtin_add_overflow(offset, header->shoff, &offset) ||
	    !source_has(source, offset, sizeof(bytes)))
		return -ENODATA;
	int rc = source->read(source->context, offset, bytes, sizeof(bytes));
	if (rc < 0)
		return rc;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	raw_section_decode(&c, raw);
	return 0;
}

/* Reads counts that do not fit into 16 bits from section header 0 (gABI, "Extended numbering"). */
static void header_extend(const struct elf_source *source, struct header *header)
{
	struct raw_section zero;
	bool usable = header->shoff != 0 && header->shentsize == sizeof(Elf64_Shdr);

	if (!usable || raw_section_read(source, header, 0, &zero) < 0) {
		header->shnum = 0;
		header->names_index = 0;
		return;
	}
	if (header->shnum == 0)
		header->shnum = zero.section.size;
	if (header->phnum == PN_XNUM)
		header->phnum = zero.section.info;
	if (header->names_index == SHN_XINDEX)
		header->names_index = zero.section.link;
}

bool elf_image_is_32_bit(const struct elf_source *source)
{
	uint8_t ident[EI_NIDENT];

	return source_has(source, 0, sizeof(ident)) &&
	       source->read(source->context, 0, ident, sizeof(ident)) == 0 &&
	       memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32;
}

static int header_read(struct elf_image *image, bool is_mapped, struct header *header)
{
	uint8_t bytes[sizeof(Elf64_Ehdr)];
	const struct elf_source *source = &image->source;

	if (!source_has(source, 0, sizeof(bytes)))
		return -ENOEXEC;
	int rc = source->read(source->context, 0, bytes, sizeof(bytes));
	if (rc < 0)
		return rc;

	struct cursor c = cursor_init(bytes, sizeof(bytes));
	const uint8_t *ident = cursor_take(&c, EI_NIDENT);
	if (memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_CLASS] != ELFCLASS64 ||
	    ident[EI_DATA] != ELFDATA2LSB || ident[EI_VERSION] != EV_CURRENT)
		return -ENOEXEC;
	image->type = cursor_u16(&c);
	image->machine = cursor_u16(&c);
	cursor_skip(&c, sizeof(uint32_t)); /* e_version */
	image->entry = cursor_u64(&c);
	header->phoff = cursor_u64(&c);
	header->shoff = cursor_u64(&c);
	cursor_skip(&c, sizeof(uint32_t) + sizeof(uint16_t)); /* e_flags, e_ehsize */
	header->phentsize = cursor_u16(&c);
	header->phnum = cursor_u16(&c);
	header->shentsize = cursor_u16(&c);
	header->shnum = cursor_u16(&c);
	header->names_index = cursor_u16(&c);

	if (image->type != ET_EXEC && image->type != ET_DYN && (is_mapped || image->type != ET_REL))
		return -ENOEXEC;
	if (image->machine != EM_X86_64 && image->machine != EM_AARCH64)
		return -ENOEXEC;
	header_extend(source, header);
	return 0;
}

/* Rounds up to the alignment of a segment of notes, which is 8 for .note.gnu.property and
 * otherwise 4. */
static uint64_t note_pad(uint64_t size, uint64_t align)
{
	return (size + align - 1) & ~(align - 1);
}

static void take_gnu_build_id(struct elf_image *image, const uint8_t *bytes, uint32_t size)
{
	if (image->build_id_length > 0)
		return;
	image->build_id_length =
	    size < sizeof(image->build_id) ? size : (unsigned int)sizeof(image->build_id);
	memcpy(image->build_id, bytes, image->build_id_length);
}

/* Copies Go's build id, which is a text. One that is too long or not printable was not made by Go's
 * linker. */
static void take_go_build_id(struct elf_image *image, const uint8_t *bytes, uint32_t size)
{
	if (image->go_build_id[0] || size >= sizeof(image->go_build_id))
		return;
	for (uint32_t i = 0; i < size; i++) {
		if (bytes[i] <= ' ' || bytes[i] > '~')
			return;
	}
	memcpy(image->go_build_id, bytes, size);
}

void elf_image_take_build_ids(struct elf_image *image, const uint8_t *notes, size_t length,
			      uint64_t align)
{
	struct cursor c = cursor_init(notes, length);

	align = align == 8 ? 8 : 4;
	while (cursor_left(&c) > 0) {
		uint32_t name_size = cursor_u32(&c);
		uint32_t size = cursor_u32(&c);
		uint32_t type = cursor_u32(&c);
		uint64_t at = cursor_offset(&c);
		const uint8_t *name = cursor_take(&c, name_size);

		cursor_skip(&c, note_pad(at + name_size, align) - (at + name_size));
		at = cursor_offset(&c);
		const uint8_t *bytes = cursor_take(&c, size);
		if (!bytes)
			return;
		if (type == NT_GNU_BUILD_ID && name_size == sizeof(ELF_NOTE_GNU) &&
		    memcmp(name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0)
			take_gnu_build_id(image, bytes, size);
		else if (type == NOTE_GO_BUILD_ID && name_size == sizeof(go_note_name) &&
			 memcmp(name, go_note_name, sizeof(go_note_name)) == 0)
			take_go_build_id(image, bytes, size);
		/* The last note may lack its padding. */
		uint64_t padding = note_pad(at + size, align) - (at + size);
		if (padding > cursor_left(&c))
			return;
		cursor_skip(&c, padding);
	}
}

/* Scans notes for build ids. Notes that cannot be read are ignored: a build id serves to find debug
 * information, and nothing relies on it as an identity. */
static int notes_scan(struct elf_image *image, uint64_t offset, uint64_t size, uint64_t align)
{
	_cleanup_free_ uint8_t *notes = NULL;

	if (size > NOTE_BYTES_MAX) {
		size = NOTE_BYTES_MAX;
		image->truncated = true;
	}
	int rc = source_load(&image->source, offset, size, &notes);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	elf_image_take_build_ids(image, notes, (size_t)size, align);
	return 0;
}

/* Scans a note section, for files in which no segment has the notes. */
static int note_section_scan(struct elf_image *image, const char *name)
{
	const struct elf_section *note = elf_image_find_section(image, name);

	if (!note || note->type != SHT_NOTE)
		return 0;
	return notes_scan(image, note->offset, note->size, 4);
}

/* Adds a segment. One whose end overflows is left out, so that later computations cannot
 * overflow. */
static void segment_add(struct elf_image *image, const struct elf_segment *segment)
{
	uint64_t end;

	if (__builtin_add_overflow(segment->offset, segment->file_size, &end) ||
	    __builtin_add_overflow(segment->vaddr, segment->file_size, &end) ||
	    __builtin_add_overflow(segment->vaddr, segment->memory_size, &end))
		return;
	if (image->segment_count == ELF_IMAGE_SEGMENTS_MAX) {
		image->truncated = true;
		return;
	}
	image->segments[image->segment_count++] = *segment;
}

static int program_header_decode(struct elf_image *image, struct cursor *c, unsigned int *notes)
{
	uint32_t type = cursor_u32(c);
	uint32_t flags = cursor_u32(c);
	struct elf_segment segment = {.executable = (flags & PF_X) != 0};

	segment.offset = cursor_u64(c);
	segment.vaddr = cursor_u64(c);
	cursor_skip(c, sizeof(uint64_t)); /* p_paddr */
	segment.file_size = cursor_u64(c);
	segment.memory_size = cursor_u64(c);
	uint64_t align = cursor_u64(c);

	switch (type) {
	case PT_LOAD:
		segment_add(image, &segment);
		return 0;
	case PT_GNU_EH_FRAME:
		image->eh_frame_hdr_vaddr = segment.vaddr;
		image->eh_frame_hdr_size = segment.file_size;
		return 0;
	case PT_NOTE:
		if ((image->build_id_length > 0 && image->go_build_id[0]) ||
		    (*notes)++ >= NOTE_SEGMENTS_MAX)
			return 0;
		return notes_scan(image, segment.offset, segment.file_size, align);
	default:
		return 0;
	}
}

static int segments_read(struct elf_image *image, const struct header *header)
{
	_cleanup_free_ uint8_t *table = NULL;
	uint64_t count = header->phnum;
	unsigned int notes = 0;

	if (header->phoff == 0 || count == 0)
		return 0;
	if (header->phentsize != sizeof(Elf64_Phdr) ||
	    source_fit(&image->source, header->phoff, count, sizeof(Elf64_Phdr)) < count)
		return -ENOEXEC;
	if (count > PROGRAM_HEADERS_MAX) {
		count = PROGRAM_HEADERS_MAX;
		image->truncated = true;
	}
	size_t length = (size_t)count * sizeof(Elf64_Phdr);
	int rc = source_load(&image->source, header->phoff, length, &table);
	if (rc < 0)
		return rc;

	struct cursor c = cursor_init(table, length);
	while (cursor_left(&c) > 0) {
		rc = program_header_decode(image, &c, &notes);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Reads the table of section names. A name may start at any of the first `*usable` bytes: it then
 * ends with a NUL in the table. */
static int names_read(struct elf_image *image, const struct header *header, uint64_t *usable)
{
	struct raw_section raw;
	uint8_t *names;

	if (header->names_index == SHN_UNDEF || header->names_index >= header->shnum ||
	    raw_section_read(&image->source, header, header->names_index, &raw) < 0 ||
	    raw.section.type != SHT_STRTAB)
		return 0;
	uint64_t size = raw.section.size;
	if (size > ELF_IMAGE_NAMES_BYTES_MAX) {
		size = ELF_IMAGE_NAMES_BYTES_MAX;
		image->truncated = true;
	}
	int rc = source_load(&image->source, raw.section.offset, size, &names);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	image->names = (char *)names;
	const uint8_t *last_nul = memrchr(names, 0, (size_t)size);
	*usable = last_nul ? (uint64_t)(last_nul - names) + 1 : 0;
	return 0;
}

/* Reads the section headers. If they are missing or broken, the image has no sections. Returns 0 or
 * -ENOMEM. */
static int sections_read(struct elf_image *image, const struct header *header)
{
	_cleanup_free_ uint8_t *table = NULL;
	uint64_t usable_names = 0;
	uint64_t count =
	    source_fit(&image->source, header->shoff, header->shnum, sizeof(Elf64_Shdr));

	if (count < header->shnum)
		image->truncated = true;
	if (count > ELF_IMAGE_SECTIONS_MAX) {
		count = ELF_IMAGE_SECTIONS_MAX;
		image->truncated = true;
	}
	if (count == 0)
		return 0;
	size_t length = (size_t)count * sizeof(Elf64_Shdr);
	int rc = source_load(&image->source, header->shoff, length, &table);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	rc = names_read(image, header, &usable_names);
	if (rc < 0)
		return rc;
	image->sections = calloc((size_t)count, sizeof(*image->sections));
	if (!image->sections)
		return -ENOMEM;

	struct cursor c = cursor_init(table, length);
	for (; image->section_count < count; image->section_count++) {
		struct raw_section raw;

		raw_section_decode(&c, &raw);
		if (raw.name < usable_names)
			raw.section.name = image->names + raw.name;
		image->sections[image->section_count] = raw.section;
	}
	return 0;
}

static int image_read(struct elf_image *image, const struct elf_source *source, bool is_mapped)
{
	struct header header = {0};

	*image = (struct elf_image){.source = *source};
	int rc = header_read(image, is_mapped, &header);
	if (rc == 0)
		rc = segments_read(image, &header);
	if (rc == 0)
		rc = sections_read(image, &header);
	if (rc == 0 && image->build_id_length == 0)
		rc = note_section_scan(image, ".note.gnu.build-id");
	if (rc == 0 && !image->go_build_id[0])
		rc = note_section_scan(image, ".note.go.buildid");
	if (rc < 0)
		elf_image_fini(image);
	return rc;
}

int elf_image_init(struct elf_image *image, const struct elf_source *source)
{
	return image_read(image, source, true);
}

int elf_image_init_sections(struct elf_image *image, const struct elf_source *source)
{
	return image_read(image, source, false);
}

void elf_image_fini(struct elf_image *image)
{
	free(image->sections);
	free(image->names);
	*image = (struct elf_image){0};
}

const struct elf_section *elf_image_find_section(const struct elf_image *image, const char *name)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		if (strcmp(image->sections[i].name, name) == 0)
			return &image->sections[i];
	}
	return NULL;
}

uint64_t elf_image_section_vaddr(const struct elf_image *image, const char *name)
{
	const struct elf_section *section = elf_image_find_section(image, name);

	return section ? section->vaddr : 0;
}

int elf_image_read_section(const struct elf_image *image, const struct elf_section *section,
			   size_t cap, uint8_t **data, size_t *length)
{
	_cleanup_free_ uint8_t *bytes = NULL;

	if (section->type == SHT_NOBITS || section->size == 0)
		return -ENOENT;
	if (section->size > cap)
		return -EFBIG;
	int rc = source_load(&image->source, section->offset, section->size, &bytes);
	if (rc < 0)
		return rc;
	if (section->flags & SHF_COMPRESSED)
		return elf_decompress(bytes, (size_t)section->size, cap, data, length);
	*data = TAKE_PTR(bytes);
	*length = (size_t)section->size;
	return 0;
}

const struct elf_segment *elf_image_find_segment(const struct elf_image *image, uint64_t vaddr,
						 uint64_t size)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *s = &image->segments[i];

		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->file_size &&
		    size <= s->file_size - (vaddr - s->vaddr))
			return s;
	}
	return NULL;
}

int elf_image_read_vaddr(const struct elf_image *image, uint64_t vaddr, uint64_t size, size_t cap,
			 uint8_t **data, size_t *length)
{
	if (size == 0)
		return -ENOENT;
	if (size > cap)
		return -EFBIG;
	const struct elf_segment *s = elf_image_find_segment(image, vaddr, size);
	if (!s)
		return -ENOENT;
	int rc = source_load(&image->source, s->offset + (vaddr - s->vaddr), size, data);
	if (rc == 0)
		*length = (size_t)size;
	return rc;
}

bool elf_image_vaddr_to_offset(const struct elf_image *image, uint64_t vaddr, uint64_t *offset)
{
	const struct elf_segment *s = elf_image_find_segment(image, vaddr, 1);

	if (!s)
		return false;
	*offset = s->offset + (vaddr - s->vaddr);
	return true;
}

bool elf_segment_has_code(const struct elf_segment *segment, uint64_t vaddr)
{
	return segment->executable && vaddr >= segment->vaddr &&
	       vaddr - segment->vaddr < segment->file_size;
}

const struct elf_segment *elf_image_find_code(const struct elf_image *image, uint64_t vaddr)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		if (elf_segment_has_code(&image->segments[i], vaddr))
			return &image->segments[i];
	}
	return NULL;
}
