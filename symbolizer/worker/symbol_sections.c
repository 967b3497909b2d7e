/* SPDX-License-Identifier: Apache-2.0 */
/* Sections and segments of an ELF file with symbols: where its code is, and where the tables are
 * that name entries of procedure linkage tables. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/search.h"
#include "symbolizer/worker/symbols_private.h"

enum {
	REGIONS_MAX = 128, /* executable sections: programs have five to ten */
	PLT_ENTRY_BYTES = 16,
};

bool symbol_sections_extent(const struct elf_image *image, const struct elf_section *section,
			    struct extent *extent)
{
	if (!section || section->type == SHT_NOBITS || (section->flags & SHF_COMPRESSED) ||
	    section->offset >= image->source.size)
		return false;
	extent->offset = section->offset;
	extent->size = section->size;
	if (extent->size > image->source.size - extent->offset)
		extent->size = image->source.size - extent->offset;
	return extent->size > 0;
}

static int compare_regions(const void *a, const void *b)
{
	const struct symbol_region *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static bool is_plt(const char *name)
{
	return strcmp(name, ".plt") == 0 || strcmp(name, ".plt.sec") == 0 ||
	       strcmp(name, ".plt.got") == 0 || strcmp(name, ".iplt") == 0;
}

/* Finds the executable sections, sorted by address. Returns how many they are. */
static uint32_t find_regions(const struct elf_image *image,
			     struct symbol_region regions[static REGIONS_MAX])
{
	uint32_t count = 0;

	for (unsigned int i = 0; i < image->section_count && count < REGIONS_MAX; i++) {
		const struct elf_section *section = &image->sections[i];

		if (!(section->flags & SHF_EXECINSTR) || !(section->flags & SHF_ALLOC) ||
		    section->size == 0 || section->size > UINT64_MAX - section->vaddr)
			continue;
		regions[count++] = (struct symbol_region){
		    .vaddr = section->vaddr,
		    .size = section->size,
		    .entry_size = section->entry_size >= 8 && section->entry_size <= 64
				      ? (uint32_t)section->entry_size
				      : PLT_ENTRY_BYTES,
		    .plt = section->name && is_plt(section->name),
		};
	}
	qsort(regions, count, sizeof(regions[0]), compare_regions);
	return count;
}

static int read_regions(struct symbols *symbols, const struct elf_image *image)
{
	struct symbol_region regions[REGIONS_MAX];
	const uint32_t count = find_regions(image, regions);

	if (count == 0)
		return 0;
	symbols->regions = malloc(count * sizeof(regions[0]));
	if (!symbols->regions)
		return -ENOMEM;
	memcpy(symbols->regions, regions, count * sizeof(regions[0]));
	symbols->region_count = count;
	symbols->base = regions[0].vaddr;
	return 0;
}

static int read_segments(struct symbols *symbols, const struct elf_image *image)
{
	if (image->segment_count == 0)
		return 0;
	symbols->segments = malloc(image->segment_count * sizeof(symbols->segments[0]));
	if (!symbols->segments)
		return -ENOMEM;
	for (unsigned int i = 0; i < image->segment_count; i++) {
		symbols->segments[i] = (struct symbol_segment){
		    .offset = image->segments[i].offset,
		    .vaddr = image->segments[i].vaddr,
		    .file_size = image->segments[i].file_size,
		    .executable = image->segments[i].executable,
		};
	}
	symbols->segment_count = image->segment_count;
	return 0;
}

/* Records where the names of PLT entries are. They are read when one is needed. */
static void read_relocations(struct symbols *symbols, const struct elf_image *image)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *section = &image->sections[i];

		if (section->type == SHT_DYNSYM && section->link < image->section_count) {
			symbol_sections_extent(image, section, &symbols->dynamic_symbols);
			symbol_sections_extent(image, &image->sections[section->link],
					       &symbols->dynamic_strings);
		}
		if (section->type != SHT_RELA || !section->name)
			continue;
		if (strcmp(section->name, ".rela.plt") == 0)
			symbol_sections_extent(image, section, &symbols->plt_relocations);
		else if (strcmp(section->name, ".rela.dyn") == 0)
			symbol_sections_extent(image, section, &symbols->dynamic_relocations);
	}
}

int symbol_sections_read(struct symbols *symbols, const struct elf_image *image)
{
	int r = read_segments(symbols, image);

	if (r == 0)
		r = read_regions(symbols, image);
	if (r == 0)
		read_relocations(symbols, image);
	return r;
}

bool symbol_sections_are_of(const struct symbols *symbols, const struct elf_image *image)
{
	struct symbol_region regions[REGIONS_MAX];
	uint32_t equal = 0;

	if (symbols->region_count == 0)
		return true;
	const uint32_t count = find_regions(image, regions);
	while (equal < count && equal < symbols->region_count &&
	       regions[equal].vaddr == symbols->regions[equal].vaddr &&
	       regions[equal].size == symbols->regions[equal].size)
		equal++;
	return equal == count && equal == symbols->region_count;
}

const struct symbol_region *symbol_sections_find_region(const struct symbols *symbols,
							uint64_t vaddr)
{
	const size_t count =
	    SEARCH_LOWER_BOUND(i, symbols->region_count, symbols->regions[i].vaddr <= vaddr);

	if (count == 0 ||
	    vaddr - symbols->regions[count - 1].vaddr >= symbols->regions[count - 1].size)
		return NULL;
	return &symbols->regions[count - 1];
}
