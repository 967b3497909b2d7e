/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/code_entries.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "parse/elf_symbols.h"

static int entries_add(struct code_entries *entries, uint64_t vaddr)
{
	if (entries->count == entries->capacity) {
		const size_t capacity = entries->capacity ? entries->capacity * 2 : 512;
		uint64_t *grown = realloc(entries->vaddrs, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		entries->vaddrs = grown;
		entries->capacity = capacity;
	}
	entries->vaddrs[entries->count++] = vaddr;
	return 0;
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

static int entries_add_section(struct code_entries *entries, const struct elf_image *image,
			       const struct elf_section *section, size_t cap)
{
	const bool symbols = section->type == SHT_SYMTAB || section->type == SHT_DYNSYM;
	_cleanup_free_ uint8_t *data = NULL;
	size_t length = 0;

	if (!symbols && section->type != SHT_RELA)
		return 0;
	int r = elf_image_read_section(image, section, cap, &data, &length);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
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
	int r = 0;

	*entries = (struct code_entries){0};
	for (unsigned int i = 0; i < image->section_count && !r; i++)
		r = entries_add_section(entries, image, &image->sections[i], cap);
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
	size_t low = 0, high = entries->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (entries->vaddrs[middle] < vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
