/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see jit_image.h. */
#include "parse/jit_image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_symbols.h"

enum {
	COMPARED_BYTES = 4096, /* that are compared at once */
};

/* --- where the code is --- */

static bool section_has_code(const struct elf_section *section)
{
	return section->flags & SHF_EXECINSTR && section->flags & SHF_ALLOC && section->vaddr &&
	       section->size && section->size <= UINT64_MAX - section->vaddr;
}

static void code_add(struct jit_image_code *code, uint64_t start, uint64_t size)
{
	if (start < code->start)
		code->start = start;
	if (start + size > code->end)
		code->end = start + size;
}

/* Sets the address of a section that is where the image is. */
static void set_address(struct elf_section *section, uint64_t base)
{
	if (base && section->flags & SHF_ALLOC && !section->vaddr && section->type != SHT_NOBITS)
		section->vaddr = base + section->offset;
}

static void set_addresses(struct elf_image *elf, uint64_t base)
{
	for (unsigned int i = 0; i < elf->section_count; i++)
		set_address(&elf->sections[i], base);
}

/* Makes the executable sections the segments of the image. */
static void take_segments(struct elf_image *elf)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < elf->section_count && count < ELF_IMAGE_SEGMENTS_MAX; i++) {
		const struct elf_section *section = &elf->sections[i];

		if (section_has_code(section))
			elf->segments[count++] = (struct elf_segment){.vaddr = section->vaddr,
								      .memory_size = section->size,
								      .executable = true};
	}
	elf->segment_count = count;
}

/* Reads the headers of an image that describes code. */
static int read_headers(struct elf_image *elf, const struct elf_source *source, uint64_t base)
{
	const int r = elf_image_init_sections(elf, source);

	if (r < 0)
		return r;
	set_addresses(elf, base);
	take_segments(elf);
	if (elf->segment_count)
		return 0;
	elf_image_fini(elf);
	return -ENOENT;
}

uint64_t jit_image_size(const uint8_t header[static JIT_IMAGE_HEADER_BYTES])
{
	Elf64_Ehdr elf;

	_Static_assert(sizeof(elf) == JIT_IMAGE_HEADER_BYTES, "the header of an image");
	memcpy(&elf, header, sizeof(elf));
	if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_type != ET_REL ||
	    elf.e_shentsize != sizeof(Elf64_Shdr) || elf.e_shoff > UINT32_MAX)
		return 0;
	return elf.e_shoff + (uint64_t)elf.e_shnum * sizeof(Elf64_Shdr);
}

/* Adds a section, whose header is at an offset of the image. */
static void code_add_header(struct jit_image_code *code, const Elf64_Shdr *header, uint64_t at,
			    uint64_t base)
{
	struct elf_section section = {.type = header->sh_type,
				      .flags = header->sh_flags,
				      .vaddr = header->sh_addr,
				      .offset = header->sh_offset,
				      .size = header->sh_size};

	set_address(&section, base);
	if (!section_has_code(&section))
		return;
	code_add(code, section.vaddr, section.size);
	if (base || code->address_at)
		return;
	code->address_at = at + offsetof(Elf64_Shdr, sh_addr);
	code->address = section.vaddr;
}

/* Only the two headers are read, since a process may have thousands of images of which nothing is
 * sampled. */
int jit_image_find_code(const struct elf_source *source, uint64_t base, struct jit_image_code *code)
{
	Elf64_Ehdr elf;
	int r = source->size < sizeof(elf) ? -ENOEXEC
					   : source->read(source->context, 0, &elf, sizeof(elf));

	*code = (struct jit_image_code){.start = UINT64_MAX};
	if (r < 0)
		return r;
	const size_t length = elf.e_shnum * sizeof(Elf64_Shdr);
	if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_shentsize != sizeof(Elf64_Shdr) ||
	    elf.e_shnum > ELF_IMAGE_SECTIONS_MAX || length > source->size ||
	    elf.e_shoff > source->size - length)
		return -ENOEXEC;
	_cleanup_free_ Elf64_Shdr *headers = malloc(length ? length : 1);
	if (!headers)
		return -ENOMEM;
	r = source->read(source->context, elf.e_shoff, headers, length);
	for (unsigned int i = 0; r == 0 && i < elf.e_shnum; i++)
		code_add_header(code, &headers[i], elf.e_shoff + i * sizeof(headers[0]), base);
	return r < 0 ? r : code->end > code->start ? 0 : -ENOENT;
}

/* --- the copy --- */

static bool is_debug(const struct elf_section *section)
{
	return section->name && !strncmp(section->name, ".debug_", strlen(".debug_"));
}

/* Returns whether names may be read from a section. */
static bool is_table(const struct elf_image *elf, const struct elf_section *section)
{
	switch (section->type) {
	case SHT_SYMTAB:
	case SHT_STRTAB:
		return true;
	case SHT_RELA:
		return section->info < elf->section_count &&
		       is_debug(&elf->sections[section->info]);
	default:
		return section->type != SHT_NOBITS && is_debug(section);
	}
}

/* Copies the tables, and makes the sections refer to the copy. The other sections are empty from
 * then on. */
static int copy_tables(struct jit_image *image, size_t cap)
{
	struct elf_image *elf = &image->elf;
	size_t length = 0, at = 0;

	for (unsigned int i = 0; i < elf->section_count; i++) {
		struct elf_section *section = &elf->sections[i];

		if (!is_table(elf, section))
			section->type = SHT_NOBITS;
		else if (section->size > cap - length)
			return -EFBIG;
		else
			length += section->size;
	}
	uint8_t *copy = malloc(length ? length : 1);
	if (!copy)
		return -ENOMEM;
	image->buffer = (struct elf_buffer){copy, length};
	for (unsigned int i = 0; i < elf->section_count; i++) {
		struct elf_section *section = &elf->sections[i];

		if (section->type == SHT_NOBITS || !section->size)
			continue;
		const int r = elf->source.read(elf->source.context, section->offset, copy + at,
					       section->size);
		if (r < 0)
			return r;
		section->offset = at;
		at += section->size;
	}
	elf->source = elf_source_from_buffer(&image->buffer);
	return 0;
}

/* Returns a cursor over the copy of a section, which is empty if there is none. */
static struct cursor section_cursor(const struct jit_image *image,
				    const struct elf_section *section)
{
	const uint8_t *data = image->buffer.data;

	return section->type == SHT_NOBITS ? cursor_init(NULL, 0)
					   : cursor_init(data + section->offset, section->size);
}

/* Returns the section that another one refers to, or NULL. */
static const struct elf_section *linked_section(const struct elf_image *elf, uint32_t index,
						uint32_t type)
{
	return index < elf->section_count && elf->sections[index].type == type
		   ? &elf->sections[index]
		   : NULL;
}

/* --- symbols --- */

/* Returns the section of a symbol, or NULL. */
static const struct elf_section *symbol_section(const struct elf_image *elf,
						const struct elf_symbol *symbol)
{
	return symbol->section != SHN_UNDEF && symbol->section < SHN_LORESERVE &&
		       symbol->section < elf->section_count
		   ? &elf->sections[symbol->section]
		   : NULL;
}

static uint64_t symbol_address(const struct elf_image *elf, const struct elf_symbol *symbol)
{
	const struct elf_section *section = symbol_section(elf, symbol);

	return symbol->value + (elf->type == ET_REL && section ? section->vaddr : 0);
}

/* A search for the best symbol of an address. */
struct name_search {
	const struct jit_image *image;
	uint64_t address;
	bool found;
	struct elf_symbol best;
	uint64_t best_start;
};

static bool symbol_is_better(const struct name_search *search, const struct elf_symbol *symbol,
			     uint64_t start)
{
	if (!search->found || start != search->best_start)
		return !search->found || start > search->best_start;
	const unsigned int rank = elf_symbol_rank(symbol), best = elf_symbol_rank(&search->best);

	return rank != best ? rank > best : symbol->size && !search->best.size;
}

static int visit_symbol(void *context, const struct elf_symbol *symbol)
{
	struct name_search *search = context;
	const struct elf_image *elf = &search->image->elf;
	const struct elf_section *section = symbol_section(elf, symbol);
	const uint64_t start = symbol_address(elf, symbol);

	if (!section || search->address - section->vaddr >= section->size ||
	    !elf_symbol_is_function(symbol, section->flags & SHF_EXECINSTR) ||
	    start > search->address || start < section->vaddr ||
	    (symbol->size && search->address - start >= symbol->size))
		return 0;
	if (symbol_is_better(search, symbol, start)) {
		search->found = true;
		search->best = *symbol;
		search->best_start = start;
	}
	return 0;
}

/* Returns the string at an offset of a string table, or NULL. */
static const char *string_at(const struct jit_image *image, const struct elf_section *strings,
			     uint64_t offset)
{
	struct cursor c = section_cursor(image, strings);

	cursor_seek(&c, offset);
	const char *text = (const char *)c.at;
	return cursor_left(&c) && memchr(text, 0, cursor_left(&c)) ? text : NULL;
}

const char *jit_image_find_name(const struct jit_image *image, uint64_t address)
{
	const struct elf_image *elf = &image->elf;

	for (unsigned int i = 0; i < elf->section_count; i++) {
		const struct elf_section *symbols = linked_section(elf, i, SHT_SYMTAB);
		const struct elf_section *strings =
		    symbols ? linked_section(elf, symbols->link, SHT_STRTAB) : NULL;
		struct name_search search = {.image = image, .address = address};

		if (!strings)
			continue;
		struct cursor c = section_cursor(image, symbols);
		elf_symbols_each(c.at, cursor_left(&c), visit_symbol, &search);
		const char *name =
		    search.found ? string_at(image, strings, search.best.name) : NULL;
		if (name && name[0])
			return name;
	}
	return NULL;
}

/* --- relocations --- */

struct relocation_kind {
	uint16_t machine;
	uint32_t type;
	bool is_64;	  /* it has 8 bytes, otherwise 4 */
	bool is_relative; /* to its own place */
};

/* Those of debug information. */
static const struct relocation_kind kinds[] = {
    {EM_X86_64, R_X86_64_64, true, false},	{EM_X86_64, R_X86_64_32, false, false},
    {EM_X86_64, R_X86_64_32S, false, false},	{EM_X86_64, R_X86_64_PC32, false, true},
    {EM_AARCH64, R_AARCH64_ABS64, true, false}, {EM_AARCH64, R_AARCH64_ABS32, false, false},
    {EM_AARCH64, R_AARCH64_PREL32, false, true}};

static const struct relocation_kind *find_kind(uint16_t machine, uint32_t type)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].machine == machine && kinds[i].type == type)
			return &kinds[i];
	}
	return NULL;
}

/* Applies a relocation to the section `target`. One that leads out of it does nothing. */
static void apply(struct jit_image *image, const struct elf_section *target,
		  const struct elf_section *symbols, const struct elf_relocation *relocation)
{
	const struct elf_image *elf = &image->elf;
	const struct relocation_kind *kind = find_kind(elf->machine, relocation->type);
	struct cursor c = section_cursor(image, symbols), at = section_cursor(image, target);
	struct elf_symbol symbol;

	cursor_seek(&c, (uint64_t)relocation->symbol * ELF_SYMBOL_BYTES);
	cursor_seek(&at, relocation->offset);
	if (!kind || cursor_left(&at) < (kind->is_64 ? 8 : 4) || !elf_symbol_read(&c, &symbol))
		return;
	const uint64_t value = symbol_address(elf, &symbol) + (uint64_t)relocation->addend -
			       (kind->is_relative ? target->vaddr + relocation->offset : 0);
	uint8_t *place = (uint8_t *)image->buffer.data + target->offset + relocation->offset;

	for (unsigned int i = 0; i < (kind->is_64 ? 8 : 4); i++)
		place[i] = (uint8_t)(value >> 8 * i);
}

static void relocate(struct jit_image *image)
{
	const struct elf_image *elf = &image->elf;

	for (unsigned int i = 0; i < elf->section_count; i++) {
		const struct elf_section *table = linked_section(elf, i, SHT_RELA);
		const struct elf_section *symbols =
		    table ? linked_section(elf, table->link, SHT_SYMTAB) : NULL;
		const struct elf_section *target = table ? &elf->sections[table->info] : NULL;
		struct elf_relocation relocation;

		if (!symbols || target->type != SHT_PROGBITS || target->flags & SHF_COMPRESSED)
			continue;
		struct cursor c = section_cursor(image, table);
		while (elf_relocation_read(&c, &relocation))
			apply(image, target, symbols, &relocation);
	}
}

/* --- interface --- */

int jit_image_init(struct jit_image *image, const struct elf_source *source, uint64_t base,
		   size_t cap)
{
	*image = (struct jit_image){.base = base};
	int r = read_headers(&image->elf, source, base);
	if (r < 0)
		return r;
	r = copy_tables(image, cap);
	if (r < 0) {
		jit_image_fini(image);
		return r;
	}
	if (image->elf.type == ET_REL)
		relocate(image);
	return 0;
}

void jit_image_fini(struct jit_image *image)
{
	elf_image_fini(&image->elf);
	free((void *)image->buffer.data);
	*image = (struct jit_image){0};
}

size_t jit_image_bytes(const struct jit_image *image)
{
	return sizeof(*image) + image->buffer.length +
	       image->elf.section_count * sizeof(image->elf.sections[0]);
}

/* Returns whether a section of `now` has the contents that were copied. */
static bool same_contents(const struct jit_image *image, const struct elf_section *copied,
			  const struct elf_image *now, const struct elf_section *section)
{
	struct cursor c = section_cursor(image, copied);
	uint8_t bytes[COMPARED_BYTES];

	for (uint64_t done = 0; done < section->size;) {
		const size_t left = section->size - done < sizeof(bytes)
					? (size_t)(section->size - done)
					: sizeof(bytes);
		const uint8_t *expected = cursor_take(&c, left);

		if (!expected ||
		    now->source.read(now->source.context, section->offset + done, bytes, left) <
			0 ||
		    memcmp(expected, bytes, left) != 0)
			return false;
		done += left;
	}
	return true;
}

bool jit_image_is_same(const struct jit_image *image, const struct elf_source *source)
{
	struct elf_image now;
	bool same = elf_image_init_sections(&now, source) == 0;

	if (!same)
		return false;
	set_addresses(&now, image->base);
	same = now.section_count == image->elf.section_count;
	for (unsigned int i = 0; same && i < now.section_count; i++) {
		const struct elf_section *section = &now.sections[i];
		const struct elf_section *copied = &image->elf.sections[i];

		same = section->vaddr == copied->vaddr && section->size == copied->size;
		if (same && section->type == SHT_STRTAB && copied->type == SHT_STRTAB)
			same = same_contents(image, copied, &now, section);
	}
	elf_image_fini(&now);
	return same;
}
