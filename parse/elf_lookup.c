/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see elf_lookup.h. */
#include "parse/elf_lookup.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/slices.h"
#include "parse/elf_window.h"

enum {
	PAUSE_SYMBOLS = 1 << 14, /* that are compared between two pauses (slices.h) */
	RELOCATIONS_AT_ONCE = 128,
	/* A larger table is not searched: libphp has 0.8 MB. */
	RELOCATIONS_BYTES_MAX = 16 << 20,
};

/* The contents of .symtab and of its strings. */
struct elf_lookup_locals {
	bool read; /* whether it was tried */
	uint8_t *table, *strings;
	size_t table_bytes, string_bytes; /* no table: there are no local symbols */
};

/* Returns the string table that a symbol table refers to (sh_link), or NULL. */
static const struct elf_section *linked(const struct elf_image *image,
					const struct elf_section *section)
{
	return section && section->link < image->section_count ? &image->sections[section->link]
							       : NULL;
}

int elf_lookup_init(struct elf_lookup *lookup, const struct elf_image *image)
{
	*lookup = (struct elf_lookup){
	    .image = image,
	    .dynamic_symbols = elf_image_find_section(image, ".dynsym"),
	    .gnu_hash = elf_image_find_section(image, ".gnu.hash"),
	    .hash = elf_image_find_section(image, ".hash"),
	    .symbols = elf_image_find_section(image, ".symtab"),
	};
	lookup->dynamic_strings = linked(image, lookup->dynamic_symbols);
	lookup->strings = linked(image, lookup->symbols);
	lookup->locals = calloc(1, sizeof(*lookup->locals));
	return lookup->locals ? 0 : -ENOMEM;
}

void elf_lookup_fini(struct elf_lookup *lookup)
{
	if (lookup->locals) {
		free(lookup->locals->table);
		free(lookup->locals->strings);
	}
	free(lookup->locals);
	lookup->locals = NULL;
}

static int section_read(const struct elf_lookup *lookup, const struct elf_section *section,
			uint64_t at, void *buffer, size_t length)
{
	const struct elf_source *source = &lookup->image->source;

	if (at > section->size || length > section->size - at)
		return -ENODATA;
	return source->read(source->context, section->offset + at, buffer, length);
}

static bool name_is(const struct elf_lookup *lookup, const struct elf_section *strings, uint64_t at,
		    const char *name)
{
	char text[ELF_LOOKUP_NAME_BYTES];
	const size_t length = strlen(name) + 1;

	return length <= sizeof(text) && section_read(lookup, strings, at, text, length) == 0 &&
	       !memcmp(text, name, length);
}

/* Computes the hash of .gnu.hash, which is Bernstein's: h * 33 + c from 5381 on, as in binutils and
 * glibc. */
static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static bool symbol_at(const struct elf_lookup *lookup, uint32_t index, const char *name,
		      struct elf_symbol *symbol)
{
	uint8_t bytes[ELF_SYMBOL_BYTES];
	struct elf_symbol found;

	if (section_read(lookup, lookup->dynamic_symbols, (uint64_t)index * ELF_SYMBOL_BYTES, bytes,
			 sizeof(bytes)) < 0)
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	if (!elf_symbol_read(&c, &found) || found.section == SHN_UNDEF ||
	    !name_is(lookup, lookup->dynamic_strings, found.name, name))
		return false;
	*symbol = found;
	return true;
}

/*
 * Looks a symbol up in .gnu.hash (binutils and glibc; there is no other specification). The table
 * consists of
 *	- a header: bucket count, index of the first symbol, words of the Bloom filter, shift;
 *	- the Bloom filter, in words of 8 bytes, which is not needed here;
 *	- one index per bucket: the first symbol of its chain, 0 if the bucket is empty;
 *	- one hash per symbol, from the first one on. Its lowest bit is set at the end of a chain.
 */
static int find_by_gnu_hash(const struct elf_lookup *lookup, const char *name, uint32_t *index,
			    struct elf_symbol *symbol)
{
	uint32_t header[4], bucket, hash;

	if (section_read(lookup, lookup->gnu_hash, 0, header, sizeof(header)) < 0 || !header[0])
		return -ENOENT;
	const uint32_t wanted = gnu_hash(name);
	const uint64_t buckets = sizeof(header) + (uint64_t)header[2] * 8;
	if (section_read(lookup, lookup->gnu_hash, buckets + (uint64_t)(wanted % header[0]) * 4,
			 &bucket, sizeof(bucket)) < 0 ||
	    bucket < header[1])
		return -ENOENT;
	const uint64_t chains = buckets + (uint64_t)header[0] * 4;
	for (uint32_t i = 0; i < ELF_LOOKUP_CHAIN_MAX; i++) {
		const uint64_t at = chains + (uint64_t)(bucket - header[1] + i) * 4;

		if (section_read(lookup, lookup->gnu_hash, at, &hash, sizeof(hash)) < 0)
			break;
		*index = bucket + i;
		if ((hash | 1) == (wanted | 1) && symbol_at(lookup, *index, name, symbol))
			return 0;
		if (hash & 1)
			break;
	}
	return -ENOENT;
}

/* Computes the hash of .hash (System V gABI, "Hash Table"). */
static uint32_t sysv_hash(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (uint8_t)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

/*
 * Looks a symbol up in .hash: bucket count, symbol count; one index per bucket (the first symbol of
 * its chain, 0 if it is empty); one index per symbol (the next one of its chain). A file has only
 * this table if the linker is old or was asked for it, as for Temurin's JDK 11.
 */
static int find_by_hash(const struct elf_lookup *lookup, const char *name, uint32_t *index,
			struct elf_symbol *symbol)
{
	uint32_t header[2];

	if (section_read(lookup, lookup->hash, 0, header, sizeof(header)) < 0 || !header[0])
		return -ENOENT;
	uint64_t at = sizeof(header) + (uint64_t)(sysv_hash(name) % header[0]) * sizeof(*index);
	for (uint32_t i = 0; i < ELF_LOOKUP_CHAIN_MAX; i++) {
		if (section_read(lookup, lookup->hash, at, index, sizeof(*index)) < 0 || !*index)
			break;
		if (symbol_at(lookup, *index, name, symbol))
			return 0;
		at = sizeof(header) + ((uint64_t)header[0] + *index) * sizeof(*index);
	}
	return -ENOENT;
}

/* Finds a symbol of .dynsym, and its index there. Returns 0 or -ENOENT. */
static int find_exported(const struct elf_lookup *lookup, const char *name, uint32_t *index,
			 struct elf_symbol *symbol)
{
	if (!lookup->dynamic_symbols || !lookup->dynamic_strings)
		return -ENOENT;
	if (lookup->gnu_hash)
		return find_by_gnu_hash(lookup, name, index, symbol);
	return lookup->hash ? find_by_hash(lookup, name, index, symbol) : -ENOENT;
}

int elf_lookup_exported(const struct elf_lookup *lookup, const char *name,
			struct elf_symbol *symbol)
{
	uint32_t index;

	return find_exported(lookup, name, &index, symbol);
}

/* Searches relocations for that which writes the address of the symbol. Returns whether it is
 * there. */
static bool find_relocation(const Elf64_Rela *relocations, size_t count, uint32_t index,
			    uint64_t *vaddr)
{
	for (size_t i = 0; i < count; i++) {
		if (ELF64_R_TYPE(relocations[i].r_info) == R_X86_64_GLOB_DAT &&
		    ELF64_R_SYM(relocations[i].r_info) == index) {
			*vaddr = relocations[i].r_offset;
			return true;
		}
	}
	return false;
}

int elf_lookup_slot(const struct elf_lookup *lookup, const char *name, uint64_t *vaddr)
{
	const struct elf_section *section = elf_image_find_section(lookup->image, ".rela.dyn");
	Elf64_Rela relocations[RELOCATIONS_AT_ONCE];
	struct elf_symbol symbol;
	uint32_t index;

	if (!section || section->size > RELOCATIONS_BYTES_MAX ||
	    find_exported(lookup, name, &index, &symbol) < 0)
		return -ENOENT;
	for (uint64_t at = 0; at < section->size; at += sizeof(relocations)) {
		const uint64_t left = section->size - at;
		const size_t length =
		    left < sizeof(relocations) ? (size_t)left : sizeof(relocations);

		if (section_read(lookup, section, at, relocations, length) < 0)
			return -ENOENT;
		if (find_relocation(relocations, length / sizeof(*relocations), index, vaddr))
			return 0;
	}
	return -ENOENT;
}

/* Reads .symtab and its strings, unless that was tried before. */
static const struct elf_lookup_locals *locals_read(const struct elf_lookup *lookup)
{
	struct elf_lookup_locals *l = lookup->locals;

	if (l->read)
		return l;
	l->read = true;
	if (!lookup->symbols || !lookup->strings ||
	    elf_image_read_section(lookup->image, lookup->symbols, ELF_LOOKUP_SYMBOLS_BYTES_MAX,
				   &l->table, &l->table_bytes) < 0 ||
	    elf_image_read_section(lookup->image, lookup->strings, ELF_LOOKUP_STRINGS_BYTES_MAX,
				   &l->strings, &l->string_bytes) < 0)
		l->table_bytes = 0;
	return l;
}

int elf_lookup_local(const struct elf_lookup *lookup, const char *name, struct elf_symbol *symbol)
{
	const struct elf_lookup_locals *l = locals_read(lookup);
	const size_t length = strlen(name) + 1;
	struct cursor c = cursor_init(l->table, l->table_bytes);
	struct elf_symbol found;

	for (uint32_t i = 0; elf_symbol_read(&c, &found); i++) {
		if (i % PAUSE_SYMBOLS == 0)
			slices_pause_when_due();
		if (found.section == SHN_UNDEF || found.name > l->string_bytes ||
		    length > l->string_bytes - found.name ||
		    memcmp(l->strings + found.name, name, length) != 0)
			continue;
		*symbol = found;
		return 0;
	}
	return -ENOENT;
}

struct wanted {
	const char *name;
	size_t length; /* with its NUL */
};

static int look_for_name(void *context, uint64_t at, struct cursor piece)
{
	const struct wanted *wanted = context;

	(void)at;
	slices_pause_when_due();
	return memmem(piece.at, cursor_left(&piece), wanted->name, wanted->length) ? 0 : -ENOENT;
}

bool elf_lookup_may_have_local(const struct elf_lookup *lookup, const char *name)
{
	const struct elf_section *strings = lookup->strings;
	struct wanted wanted = {name, strlen(name) + 1};
	struct elf_window window;

	if (!lookup->symbols || !strings || strings->flags & SHF_COMPRESSED)
		return false;
	elf_window_init(&window, &lookup->image->source, strings->offset,
			strings->size < ELF_LOOKUP_STRINGS_BYTES_MAX
			    ? strings->size
			    : ELF_LOOKUP_STRINGS_BYTES_MAX);
	const int r = elf_window_pieces(&window, 0, wanted.length, look_for_name, &wanted);
	elf_window_fini(&window);
	return r == 0;
}
