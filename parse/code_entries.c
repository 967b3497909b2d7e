/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects where functions start.
 *
 * How this works: two kinds of tables name functions. Symbol tables (.symtab, .dynsym) have symbols
 * of the types STT_FUNC and STT_GNU_IFUNC. A stripped file has few of these, but a position-
 * independent file has a relocation R_X86_64_RELATIVE for each pointer in its data (x86-64 psABI,
 * section 4.4), with the address as its addend. If that is in an executable segment, it is almost
 * certainly the start of a function: an entry of a table of callbacks, or a constructor. All
 * addresses are sorted, so that code_flow.c can take those of one region of code.
 *
 * Example: musl's libc.so exports `qsort` at 0x4f310 and has a table with a pointer to its static
 * function at 0x4ef20. The entries are {..., 0x4ef20, 0x4f310, ...}; the static function is found
 * although it has no symbol. A pointer into the middle of a function (a label) would be wrong, but
 * compilers make such tables with relative offsets, not with relocations.
 */
#include "parse/code_entries.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/search.h"
#include "parse/elf_symbols.h"

enum {
	ENTRIES_INITIAL = 512,
};

static int entries_add(struct code_entries *entries, uint64_t vaddr)
{
	int r = ARRAY_RESERVE(entries->vaddrs, entries->capacity, entries->count + 1,
			      ENTRIES_INITIAL, ARRAY_UNLIMITED);

	if (!r)
		entries->vaddrs[entries->count++] = vaddr;
	return r;
}

static int entries_on_symbol(void *context, const struct elf_symbol *symbol)
{
	const bool function = symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC;

	return function && symbol->section != SHN_UNDEF ? entries_add(context, symbol->value) : 0;
}

static int entries_add_relocated(struct code_entries *entries, const struct elf_image *image,
				 const uint8_t *data, size_t length)
{
	struct cursor c = cursor_init(data, length);
	struct elf_relocation relocation;
	int r = 0;

	while (!r && elf_relocation_read(&c, &relocation)) {
		if (relocation.type == R_X86_64_RELATIVE &&
		    elf_image_find_code(image, (uint64_t)relocation.addend))
			r = entries_add(entries, (uint64_t)relocation.addend);
	}
	return r;
}

/* Adds the functions of one table, and subtracts its size from `left`. The sections of a forged
 * file may be many, and all have the same bytes. */
static int entries_add_section(struct code_entries *entries, const struct elf_image *image,
			       const struct elf_section *section, size_t *left)
{
	const bool symbols = section->type == SHT_SYMTAB || section->type == SHT_DYNSYM;
	_cleanup_free_ uint8_t *data = NULL;
	size_t length = 0;

	if (!symbols && section->type != SHT_RELA)
		return 0;
	int r = elf_image_read_section(image, section, *left, &data, &length);
	if (r == -EFBIG || r == -ENOENT)
		return 0;
	if (r < 0) {
		/* A damaged table may have taken as long as one that fills the rest. */
		*left = 0;
		return r == -ENOMEM ? r : 0;
	}
	*left -= length;
	return symbols ? elf_symbols_each(data, length, entries_on_symbol, entries)
		       : entries_add_relocated(entries, image, data, length);
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int code_entries_read(struct code_entries *entries, const struct elf_image *image, size_t cap)
{
	size_t left = cap;
	int r = 0;

	*entries = (struct code_entries){0};
	for (unsigned int i = 0; i < image->section_count && !r; i++)
		r = entries_add_section(entries, image, &image->sections[i], &left);
	if (r < 0)
		code_entries_fini(entries);
	else if (entries->count)
		qsort(entries->vaddrs, entries->count, sizeof(*entries->vaddrs), compare);
	return r;
}

void code_entries_fini(struct code_entries *entries)
{
	free(entries->vaddrs);
	*entries = (struct code_entries){0};
}

size_t code_entries_before(const struct code_entries *entries, uint64_t vaddr)
{
	return SEARCH_LOWER_BOUND(i, entries->count, entries->vaddrs[i] < vaddr);
}
