/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/go_module.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_symbols.h"

enum {
	/* internal/abi/symtab.go: Go118PCLnTabMagic, Go120PCLnTabMagic */
	MAGIC_1_18 = 0xfffffff0u,
	MAGIC_1_20 = 0xfffffff1u,
	HEADER_BYTES = 72, /* pcHeader: magic, sizes, and eight words */

	/* Words of moduledata that are read: up to the end of the table in Go 1.27. */
	MODULE_WORDS = 45,
	MODULE_NAMES = 1,   /* funcnametab.ptr */
	MODULE_VALUES = 10, /* pctab.ptr */
	MODULE_TEXT = 22,
	/* gofunc. Go 1.20 inserted covctrs and ecovctrs before it; 1.27 inserted typedesclen,
	 * itaboffset and itabsize, and 1.26 has epclntab after it. */
	MODULE_INLINED_1_18 = 38,
	MODULE_INLINED_1_20 = 40,
	MODULE_INLINED_1_27 = 43,
	MODULE_TABLE_END_1_27 = 44, /* epclntab */

	CHUNK_BYTES = 48 << 10, /* a multiple of what is scanned: words and relocations */
	/* Bytes that are searched in all, which takes some 50 ms. The largest programs have some 50
	 * MiB of read-only data and of relocations each. What comes after that is not found. */
	SCAN_BYTES_MAX = 256 << 20,
	/* The same for the header of the table, which has no section of its own only in a
	 * position-independent program that GNU ld has linked: 13 ms. */
	SCAN_TABLE_BYTES_MAX = 64 << 20,
	/* Places that are compared with what is searched. Only a forged file has several. */
	CANDIDATES_MAX = 64,
};

struct search {
	const struct elf_image *image;
	struct go_module *module;
	uint64_t table_vaddr; /* 0 until the table of functions is found */
	uint64_t names_vaddr, values_vaddr;
	uint64_t words[MODULE_WORDS]; /* of moduledata */
	uint64_t words_vaddr;	      /* 0 until a candidate is found */
	unsigned int candidates;
	uint64_t scan_left; /* bytes */
};

/* Handles a chunk of a section, which starts `at` bytes after the start of the section. Returns
 * whether the search is over. */
typedef bool (*scan_fn)(struct search *search, const struct elf_section *section,
			struct cursor *chunk, uint64_t at);

static int scan_section(struct search *search, const struct elf_section *section, scan_fn visit)
{
	const struct elf_source *source = &search->image->source;
	const uint64_t size = section->size < search->scan_left ? section->size : search->scan_left;

	if (section->type == SHT_NOBITS || section->flags & SHF_COMPRESSED)
		return 0;
	search->scan_left -= size;
	_cleanup_free_ uint8_t *bytes = malloc(CHUNK_BYTES);
	if (!bytes)
		return -ENOMEM;
	for (uint64_t at = 0; at < size; at += CHUNK_BYTES) {
		const size_t length = size - at < CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES;
		const int r = source->read(source->context, section->offset + at, bytes, length);
		struct cursor chunk = cursor_init(bytes, length);

		if (r)
			return r == -ENODATA ? 0 : r;
		if (visit(search, section, &chunk, at))
			return 0;
	}
	return 0;
}

/* --- the table of functions --- */

/* Reads where the parts of the table are. They are in the order of the file, and the last one ends
 * with the section. */
static bool read_parts(struct search *search, struct cursor *c, struct go_part table)
{
	struct go_part *const parts[] = {&search->module->names, &search->module->units,
					 &search->module->files, &search->module->values,
					 &search->module->functions};
	enum {
		COUNT = sizeof(parts) / sizeof(parts[0])
	};
	uint64_t at[COUNT + 1];

	for (unsigned int i = 0; i < COUNT; i++)
		at[i] = cursor_u64(c);
	at[COUNT] = table.size;
	if (c->failed || at[0] < HEADER_BYTES)
		return false;
	for (unsigned int i = 0; i < COUNT; i++) {
		if (at[i] > at[i + 1])
			return false;
		*parts[i] =
		    (struct go_part){.offset = table.offset + at[i], .size = at[i + 1] - at[i]};
	}
	search->names_vaddr = search->table_vaddr + at[0];
	search->values_vaddr = search->table_vaddr + at[3];
	return true;
}

/* Reads the header of a table that starts `at` bytes after the start of a section. */
static bool read_header(struct search *search, const struct elf_section *section, uint64_t at)
{
	const struct elf_source *source = &search->image->source;
	const struct go_part table = {.offset = section->offset + at, .size = section->size - at};
	struct go_module *module = search->module;
	uint8_t header[HEADER_BYTES] = {0};
	struct cursor c = cursor_init(header, sizeof(header));

	if (table.size < sizeof(header) ||
	    source->read(source->context, table.offset, header, sizeof(header)) != 0)
		return false;
	const uint32_t magic = cursor_u32(&c);
	const uint16_t padding = cursor_u16(&c);
	module->quantum = cursor_u8(&c);
	const uint8_t pointer_bytes = cursor_u8(&c);
	const uint64_t count = cursor_u64(&c);
	cursor_skip(&c, sizeof(uint64_t)); /* how many files there are */
	/* It is 0 since Go 1.26, and where a relocation writes it. */
	module->text_vaddr = cursor_u64(&c);
	module->has_start_lines = magic == MAGIC_1_20;
	if ((magic != MAGIC_1_18 && magic != MAGIC_1_20) || padding || pointer_bytes != 8 ||
	    (module->quantum != 1 && module->quantum != 4))
		return false;
	search->table_vaddr = section->vaddr + at;
	if (!read_parts(search, &c, table) || count > UINT32_MAX ||
	    count >= module->functions.size / GO_ENTRY_BYTES) {
		search->table_vaddr = 0;
		return false;
	}
	module->function_count = (uint32_t)count;
	return true;
}

static bool visit_headers(struct search *search, const struct elf_section *section,
			  struct cursor *chunk, uint64_t at)
{
	while (cursor_left(chunk) >= sizeof(uint64_t) && search->candidates < CANDIDATES_MAX) {
		const uint64_t word_at = at + cursor_offset(chunk);
		const uint32_t magic = (uint32_t)cursor_u64(chunk);

		if (magic != MAGIC_1_18 && magic != MAGIC_1_20)
			continue;
		search->candidates++;
		if (read_header(search, section, word_at))
			return true;
	}
	return search->candidates == CANDIDATES_MAX;
}

static int find_table(struct search *search)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct elf_section *section = elf_image_find_section(search->image, names[i]);

		if (section && section->type != SHT_NOBITS && !(section->flags & SHF_COMPRESSED))
			return read_header(search, section, 0) ? 0 : -ENOENT;
	}
	const struct elf_section *section = elf_image_find_section(search->image, ".data.rel.ro");
	if (!section || !elf_image_find_section(search->image, ".go.buildinfo"))
		return -ENOENT;
	const int r = scan_section(search, section, visit_headers);
	return r < 0 ? r : search->table_vaddr ? 0 : -ENOENT;
}

/* --- moduledata --- */

static bool is_moduledata(const struct search *search)
{
	return search->words[MODULE_NAMES] == search->names_vaddr &&
	       search->words[MODULE_VALUES] == search->values_vaddr;
}

/* Reads what the file has at the address of a candidate. */
static bool read_words(struct search *search, uint64_t vaddr)
{
	const struct elf_source *source = &search->image->source;
	uint64_t offset;

	search->candidates++;
	search->words_vaddr = vaddr;
	return elf_image_vaddr_to_offset(search->image, vaddr, &offset) &&
	       !source->read(source->context, offset, search->words, sizeof(search->words));
}

static bool visit_words(struct search *search, const struct elf_section *section,
			struct cursor *chunk, uint64_t at)
{
	while (cursor_left(chunk) >= sizeof(uint64_t) && search->candidates < CANDIDATES_MAX) {
		const uint64_t vaddr = section->vaddr + at + cursor_offset(chunk);

		if (cursor_u64(chunk) == search->table_vaddr && read_words(search, vaddr) &&
		    is_moduledata(search))
			return true;
	}
	return search->candidates == CANDIDATES_MAX;
}

/* Looks for a relocation that writes the address of the table. */
static bool visit_candidates(struct search *search, const struct elf_section *section,
			     struct cursor *chunk, uint64_t at)
{
	struct elf_relocation relocation;

	(void)section;
	(void)at;
	while (elf_relocation_read(chunk, &relocation)) {
		if ((uint64_t)relocation.addend == search->table_vaddr)
			return read_words(search, relocation.offset);
	}
	return false;
}

/* Enters what relocations write into the words of the candidate. */
static bool visit_relocations(struct search *search, const struct elf_section *section,
			      struct cursor *chunk, uint64_t at)
{
	struct elf_relocation relocation;

	(void)section;
	(void)at;
	while (elf_relocation_read(chunk, &relocation)) {
		const uint64_t from_start = relocation.offset - search->words_vaddr;

		if (from_start < sizeof(search->words) && from_start % sizeof(uint64_t) == 0)
			search->words[from_start / sizeof(uint64_t)] = (uint64_t)relocation.addend;
	}
	return false;
}

static int find_in_relocations(struct search *search)
{
	const struct elf_image *image = search->image;
	int r = 0;

	for (unsigned int i = 0; i < image->section_count && !r; i++) {
		const struct elf_section *section = &image->sections[i];

		if (section->type != SHT_RELA)
			continue;
		search->words_vaddr = 0;
		r = scan_section(search, section, visit_candidates);
		if (r || !search->words_vaddr)
			continue;
		r = scan_section(search, section, visit_relocations);
		if (is_moduledata(search))
			break;
	}
	return r;
}

static bool find_moduledata(struct search *search, int *error)
{
	/* The first one since Go 1.26. */
	static const char *const names[] = {".go.module", ".noptrdata", ".data"};

	search->candidates = 0;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct elf_section *section = elf_image_find_section(search->image, names[i]);

		*error = section ? scan_section(search, section, visit_words) : 0;
		if (*error)
			return false;
		if (is_moduledata(search))
			return true;
	}
	*error = find_in_relocations(search);
	return !*error && is_moduledata(search);
}

/* Returns the part of the file from a virtual address to the end of its segment. */
static struct go_part part_from(const struct elf_image *image, uint64_t vaddr)
{
	const struct elf_segment *segment = elf_image_find_segment(image, vaddr, 1);

	if (!segment)
		return (struct go_part){0};
	const uint64_t at = vaddr - segment->vaddr;
	return (struct go_part){.offset = segment->offset + at, .size = segment->file_size - at};
}

/* Finds the inlined calls. Since Go 1.27 they are at the end of the table of functions. Where
 * moduledata then says so, it had the capacity of a short list before. */
static void find_inlined(struct search *search)
{
	const uint64_t *words = search->words;
	struct go_module *module = search->module;
	uint64_t vaddr = words[MODULE_INLINED_1_18];

	if (module->has_start_lines)
		vaddr = words[MODULE_INLINED_1_27] >= search->table_vaddr &&
				words[MODULE_INLINED_1_27] < words[MODULE_TABLE_END_1_27]
			    ? words[MODULE_INLINED_1_27]
			    : words[MODULE_INLINED_1_20];
	module->inlined = part_from(search->image, vaddr);
}

static int begin(struct search *search, struct go_module *module, const struct elf_image *image)
{
	*module = (struct go_module){0};
	*search =
	    (struct search){.image = image, .module = module, .scan_left = SCAN_TABLE_BYTES_MAX};
	return find_table(search);
}

int go_module_find_table(struct go_module *module, const struct elf_image *image)
{
	struct search search;

	return begin(&search, module, image);
}

int go_module_find(struct go_module *module, const struct elf_image *image)
{
	struct search search;
	int r = begin(&search, module, image);

	if (r)
		return r;
	search.scan_left = SCAN_BYTES_MAX;
	if (find_moduledata(&search, &r)) {
		module->text_vaddr = search.words[MODULE_TEXT];
		find_inlined(&search);
	}
	/* The addresses of functions are up to 4 GiB above that of the code. */
	const bool has_room = module->text_vaddr && module->text_vaddr <= UINT64_MAX - UINT32_MAX;
	return r ? r : has_room ? 0 : -ENOENT;
}
