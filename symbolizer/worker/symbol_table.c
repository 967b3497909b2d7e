/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of the functions of an ELF file, which symbols.h uses: it is built from the headers and
 * the symbol table of the file, then searched by address.
 *
 * How this works:
 * - The symbol table is read twice in chunks of 48 KiB: first to count the functions in it, so that
 *   the index is allocated once, then to store them. .symtab is used; .dynsym is used only if there
 *   is no .symtab, or it has no functions.
 * - The entries are sorted by address with an in-place radix sort. A hostile file may have its
 *   symbols in any order: the time of this sort does not depend on the order, and it needs no
 *   memory.
 * - Of several symbols at one address, the best one is kept: by rank (binding and type), then one
 *   with a size, then by name. Labels without a size inside of a function with a size are dropped.
 *
 * Example: local `f` and global `g` at 0x100 with 0x40 bytes, and a label `loop` without size at
 * 0x130. The index has one entry, `g` at 0x100 with 0x40 bytes.
 */
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "common/search.h"
#include "symbolizer/worker/symbol_name.h"
#include "symbolizer/worker/symbols_private.h"

enum {
	TABLE_CHUNK_BYTES = ELF_SYMBOL_BYTES * 2048, /* 48 KiB */
	/* A larger table (11 million entries) is not read, which would take seconds. Chromium's has
	 * 3 million. */
	TABLE_BYTES_MAX = 256 * 1024 * 1024,
	/* Names that may be compared to choose among symbols of one address. Each comparison reads
	 * two names from the file. The symbols of the C library need some hundred comparisons. */
	NAME_COMPARISONS_MAX = 256 * 1024,
	REGIONS_MAX = 128, /* executable sections: programs have five to ten */
	PLT_ENTRY_BYTES = 16,
	SORT_SMALL = 24, /* below this many entries, insertion is faster than radix sort */
	/* How far the last label of a section reaches if it has no size: musl's memset has 196
	 * bytes, and functions without a name may follow. */
	LAST_LABEL_BYTES = 256,
	/* How many symbols before an address are checked for one that is long enough to contain
	 * it: functions are nested at most two or three deep. */
	ENCLOSING_DEPTH_MAX = 16,
};

_Static_assert(sizeof(((struct symbols_ids *)0)->go_build_id) == ELF_IMAGE_GO_BUILD_ID_BYTES,
	       "an id fits");
#define ENTRY_SIZE_MAX ((1u << 29) - 1)

/* --- sections and segments --- */

static bool get_extent(const struct elf_image *image, const struct elf_section *section,
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
			get_extent(image, section, &symbols->dynamic_symbols);
			get_extent(image, &image->sections[section->link],
				   &symbols->dynamic_strings);
		}
		if (section->type != SHT_RELA || !section->name)
			continue;
		if (strcmp(section->name, ".rela.plt") == 0)
			get_extent(image, section, &symbols->plt_relocations);
		else if (strcmp(section->name, ".rela.dyn") == 0)
			get_extent(image, section, &symbols->dynamic_relocations);
	}
}

/* --- symbols --- */

struct build {
	struct symbols *symbols;
	int fd;	       /* of the file with the symbol table */
	bool complete; /* tables that are cut off by the end of the file are not used */
	struct name_reader names;
	struct symbol_entry *entries;
	uint32_t count, capacity; /* entries: found; allocated */
	unsigned int comparisons;
};

static bool is_wanted(struct build *build, const struct elf_symbol *symbol)
{
	const struct symbol_region *region =
	    symbol_table_find_region(build->symbols, symbol->value);

	if (!elf_symbol_is_function(symbol, region != NULL) ||
	    symbol->name >= build->names.strings.size ||
	    symbol->value - build->symbols->base > UINT32_MAX)
		return false;
	if (build->symbols->machine != EM_X86_64 && elf_symbol_maybe_mapping(symbol)) {
		const char *name = name_reader_get(&build->names, symbol->name);

		return name && !elf_symbol_name_is_mapping(name);
	}
	return true;
}

static int visit_count(void *context, const struct elf_symbol *symbol)
{
	struct build *build = context;

	build->count += is_wanted(build, symbol);
	return 0;
}

static int visit_store(void *context, const struct elf_symbol *symbol)
{
	struct build *build = context;

	if (!is_wanted(build, symbol))
		return 0;
	/* The file may have changed since the symbols were counted. */
	if (build->count == build->capacity)
		return 1;
	build->entries[build->count++] = (struct symbol_entry){
	    .start = (uint32_t)(symbol->value - build->symbols->base),
	    .size = symbol->size < ENTRY_SIZE_MAX ? (uint32_t)symbol->size & ENTRY_SIZE_MAX
						  : ENTRY_SIZE_MAX,
	    .rank = elf_symbol_rank(symbol) & ELF_SYMBOL_RANK_MAX,
	    .name = symbol->name,
	};
	return 0;
}

/* Passes each symbol of the table to `visit`. Symbols that a truncated file no longer has are left
 * out. */
static int read_table(struct build *build, struct extent table,
		      int (*visit)(void *context, const struct elf_symbol *symbol))
{
	_cleanup_free_ uint8_t *chunk = malloc(TABLE_CHUNK_BYTES);
	int r = 0;

	if (!chunk)
		return -ENOMEM;
	for (uint64_t at = 0; at < table.size && r == 0;) {
		size_t length = TABLE_CHUNK_BYTES;

		if (length > table.size - at)
			length = (size_t)(table.size - at);
		if (file_read_exactly(build->fd, table.offset + at, chunk, length))
			return 0;
		r = elf_symbols_each(chunk, length, visit, build);
		at += length;
	}
	return 0;
}

static void insertion_sort(struct symbol_entry *entries, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct symbol_entry moved = entries[i];
		size_t at = i;

		for (; at > 0 && entries[at - 1].start > moved.start; at--)
			entries[at] = entries[at - 1];
		entries[at] = moved;
	}
}

/* Sorts by `start`, from the byte at `shift` down to the lowest one. */
static void radix_sort(struct symbol_entry *entries, size_t count, unsigned int shift)
{
	uint32_t next[256], end[256] = {0};

	if (count <= SORT_SMALL) {
		insertion_sort(entries, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		end[entries[i].start >> shift & 255]++;
	for (unsigned int i = 0, sum = 0; i < 256; i++) {
		next[i] = sum;
		sum += end[i];
		end[i] = sum;
	}
	for (unsigned int i = 0; i < 256; i++) {
		while (next[i] < end[i]) {
			struct symbol_entry *entry = &entries[next[i]];
			unsigned int to = entry->start >> shift & 255;

			if (to == i) {
				next[i]++;
				continue;
			}
			struct symbol_entry swapped = entries[next[to]];
			entries[next[to]++] = *entry;
			*entry = swapped;
		}
	}
	for (unsigned int i = 0; i < 256 && shift > 0; i++) {
		uint32_t first = i ? end[i - 1] : 0;

		if (end[i] - first > 1)
			radix_sort(entries + first, end[i] - first, shift - 8);
	}
}

/* Returns whether the name of `a` is better than that of `b`, if everything else is equal. */
static bool name_is_better(struct build *build, const struct symbol_entry *a,
			   const struct symbol_entry *b)
{
	char other[SYMBOL_NAME_MAX];
	const char *name;
	size_t length;

	if (a->name == b->name || build->comparisons >= NAME_COMPARISONS_MAX)
		return a->name < b->name;
	build->comparisons++;
	name = name_reader_get(&build->names, b->name);
	if (!name)
		return true;
	length = strnlen(name, sizeof(other) - 1);
	memcpy(other, name, length);
	other[length] = '\0';
	name = name_reader_get(&build->names, a->name);
	return name && elf_symbol_name_is_better(name, other);
}

static bool entry_is_better(struct build *build, const struct symbol_entry *a,
			    const struct symbol_entry *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	if ((a->size > 0) != (b->size > 0))
		return a->size > 0;
	return name_is_better(build, a, b);
}

/* Keeps the best symbol of each address. A label without a size inside of a function that has one
 * is not a function (but a loop in hand-written assembly, for example); it is dropped too. */
static void resolve_duplicates(struct build *build)
{
	struct symbol_entry *entries = build->entries;
	uint64_t sized_end = 0;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < build->count;) {
		struct symbol_entry best = entries[i];
		uint32_t size = best.size;

		for (i++; i < build->count && entries[i].start == best.start; i++) {
			if (entries[i].size > size)
				size = entries[i].size;
			if (entry_is_better(build, &entries[i], &best))
				best = entries[i];
		}
		if (best.size == 0)
			best.size = size & ENTRY_SIZE_MAX;
		if (best.size == 0 && best.start < sized_end)
			continue;
		if ((uint64_t)best.start + best.size > sized_end)
			sized_end = (uint64_t)best.start + best.size;
		entries[kept++] = best;
	}
	build->count = kept;
}

size_t symbol_table_fixed_bytes(const struct symbols *symbols)
{
	return sizeof(*symbols) + symbols->segment_count * sizeof(symbols->segments[0]) +
	       symbols->region_count * sizeof(symbols->regions[0]);
}

/* Takes the index that was built, in the place of the one that is there. */
static void take_index(struct build *build)
{
	struct symbols *symbols = build->symbols;
	struct symbol_entry *shrunk = realloc(build->entries, (build->count ? build->count : 1) *
								  sizeof(struct symbol_entry));

	free(symbols->entries);
	symbols->entries = shrunk ? shrunk : build->entries;
	symbols->entry_count = build->count;
	symbols->strings = build->names.strings;
	symbols->names_fd = build->fd;
	build->entries = NULL;
}

static int index_table(struct build *build, struct extent table, size_t cap_bytes)
{
	const struct symbols *symbols = build->symbols;
	/* Everything but the entries, in whose place these come. */
	const size_t fixed = symbol_table_fixed_bytes(symbols) +
			     function_ranges_bytes(&symbols->ranges) + namer_bytes(&symbols->namer);
	int r;

	if (table.size > TABLE_BYTES_MAX)
		return -EFBIG;
	build->count = 0;
	r = read_table(build, table, visit_count);
	if (r || build->count == 0)
		return r;
	if (fixed > cap_bytes || build->count > (cap_bytes - fixed) / sizeof(struct symbol_entry))
		return -EFBIG;
	build->entries = malloc(build->count * sizeof(struct symbol_entry));
	if (!build->entries)
		return -ENOMEM;
	build->capacity = build->count;
	build->count = 0;
	r = read_table(build, table, visit_store);
	if (r) {
		free(TAKE_PTR(build->entries));
		return r;
	}
	radix_sort(build->entries, build->count, 24);
	resolve_duplicates(build);
	take_index(build);
	return 0;
}

/* Indexes the first section of `type` (SHT_SYMTAB, SHT_DYNSYM), if its strings are there too. */
static int index_section(struct build *build, const struct elf_image *image, uint32_t type,
			 size_t cap_bytes)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *section = &image->sections[i];
		struct extent table = {0}, strings = {0};

		if (section->type != type || section->entry_size != ELF_SYMBOL_BYTES)
			continue;
		if (section->link >= image->section_count ||
		    image->sections[section->link].type != SHT_STRTAB ||
		    !get_extent(image, section, &table) ||
		    !get_extent(image, &image->sections[section->link], &strings))
			return 0;
		if (build->complete && (table.size != section->size ||
					strings.size != image->sections[section->link].size))
			return 0;
		name_reader_init(&build->names, build->fd, strings);
		return index_table(build, table, cap_bytes);
	}
	return 0;
}

static struct build *build_new(struct symbols *symbols, int fd)
{
	struct build *build = calloc(1, sizeof(*build));

	if (build) {
		build->symbols = symbols;
		build->fd = fd;
	}
	return build;
}

int symbol_table_build(struct symbols *symbols, const struct elf_image *image, size_t cap_bytes)
{
	_cleanup_free_ struct build *build = build_new(symbols, symbols->fd);
	int r;

	if (!build)
		return -ENOMEM;
	symbol_file_to_hex(image->build_id, image->build_id_length, symbols->ids.gnu_build_id);
	memcpy(symbols->ids.go_build_id, image->go_build_id, sizeof(symbols->ids.go_build_id));
	symbols->machine = image->machine;
	r = read_segments(symbols, image);
	if (r == 0)
		r = read_regions(symbols, image);
	if (r)
		return r;
	read_relocations(symbols, image);
	if (symbol_table_fixed_bytes(symbols) > cap_bytes)
		return -EFBIG;
	if (symbols->region_count == 0)
		return 0;
	r = index_section(build, image, SHT_SYMTAB, cap_bytes);
	symbols->has_symtab = symbols->entry_count > 0;
	if (r == 0 && !symbols->has_symtab)
		r = index_section(build, image, SHT_DYNSYM, cap_bytes);
	return r;
}

bool symbol_table_is_of(const struct symbols *symbols, const struct elf_image *image)
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

int symbol_table_replace(struct symbols *symbols, const struct elf_image *image, int fd)
{
	_cleanup_free_ struct build *build = build_new(symbols, fd);

	if (!build)
		return -ENOMEM;
	/* A part of it would not be better than what is there. */
	build->complete = true;
	int r = index_section(build, image, SHT_SYMTAB, symbols->cap_bytes);
	symbols->has_symtab |= symbols->names_fd == fd;
	return r;
}

/* --- lookup --- */

const struct symbol_region *symbol_table_find_region(const struct symbols *symbols, uint64_t vaddr)
{
	const size_t count =
	    SEARCH_LOWER_BOUND(i, symbols->region_count, symbols->regions[i].vaddr <= vaddr);

	if (count == 0 ||
	    vaddr - symbols->regions[count - 1].vaddr >= symbols->regions[count - 1].size)
		return NULL;
	return &symbols->regions[count - 1];
}

/* Returns the number of entries that start at or below `start`. */
static uint32_t entries_up_to(const struct symbols *symbols, uint32_t start)
{
	return (uint32_t)SEARCH_LOWER_BOUND(i, symbols->entry_count,
					    symbols->entries[i].start <= start);
}

const struct symbol_entry *symbol_table_find_entry(const struct symbols *symbols, uint64_t vaddr)
{
	const struct symbol_region *region = symbol_table_find_region(symbols, vaddr);
	uint32_t start, count;

	if (!region || vaddr - symbols->base > UINT32_MAX)
		return NULL;
	start = (uint32_t)(vaddr - symbols->base);
	count = entries_up_to(symbols, start);
	const bool followed =
	    count < symbols->entry_count &&
	    symbols->base + symbols->entries[count].start - region->vaddr < region->size;
	for (unsigned int depth = 0; depth < ENCLOSING_DEPTH_MAX && count > 0; depth++) {
		const struct symbol_entry *entry = &symbols->entries[--count];

		if (start - entry->start < entry->size)
			return entry;
		/* A symbol without a size ends where the next one starts. Where the last one of a
		 * section ends is not recorded, and functions without a name may follow it. */
		if (entry->size == 0 && depth == 0 &&
		    symbols->base + entry->start >= region->vaddr &&
		    (followed || start - entry->start < LAST_LABEL_BYTES))
			return entry;
	}
	return NULL;
}

bool symbol_table_read_name(int fd, struct extent strings, uint32_t offset, const char *suffix,
			    struct symbol *symbol)
{
	struct name_reader reader;
	const char *raw;
	size_t length;

	name_reader_init(&reader, fd, strings);
	raw = name_reader_get(&reader, offset);
	if (!raw)
		return false;
	length = symbol_name_format(raw, symbol->name, sizeof(symbol->name) - strlen(suffix));
	memcpy(symbol->name + length, suffix, strlen(suffix) + 1);
	return true;
}

bool symbol_table_read_entry(const struct symbols *symbols, const struct symbol_entry *entry,
			     const char *suffix, struct symbol *symbol)
{
	if (!symbol_table_read_name(symbols->names_fd, symbols->strings, entry->name, suffix,
				    symbol))
		return false;
	symbol->start_vaddr = symbols->base + entry->start;
	symbol->size = entry->size;
	return true;
}
