/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/symbols.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/elf_image.h"
#include "parse/elf_symbols.h"
#include "parse/function_ranges.h"
#include "symbolizer/worker/symbol_file.h"
#include "symbolizer/worker/symbol_name.h"

enum {
	TABLE_CHUNK_BYTES = ELF_SYMBOL_BYTES * 2048, /* 48 KiB */
	/* A table that is larger (11 million entries) is not read: time, not memory. Chromium's has
	 * 3 million. */
	TABLE_BYTES_MAX = 256 * 1024 * 1024,
	/* Relocations that one PLT entry's name may cost. */
	RELOCATIONS_BYTES_MAX = ELF_RELOCATION_BYTES * 64 * 1024,
	/* Names that may be compared to choose among equals at one address. */
	NAME_COMPARISONS_MAX = 256 * 1024,
	/* musl's memset has 196, and its system calls lie behind. */
	LAST_LABEL_BYTES = 256,
	/* Symbols looked at below an address for one that is long enough to hold it. */
	ENCLOSING_DEPTH_MAX = 16,
	REGIONS_MAX = 128,
	PLT_ENTRY_BYTES = 16,
	SORT_SMALL = 24,
};

/* A function: 12 bytes. Its size is cut to 29 bits; the rank (elf_symbol_rank) is of use only while
 * the index is made. */
struct entry {
	uint32_t start; /* from `base` */
	uint32_t size : 29;
	uint32_t rank : 3;
	uint32_t name; /* offset in the string table */
};
static_assert(sizeof(((struct symbols_ids *)0)->go_build_id) == ELF_IMAGE_GO_BUILD_ID_BYTES,
	      "an id fits");
static_assert(sizeof(struct entry) == 12, "the index is meant to be compact");
#define ENTRY_SIZE_MAX ((1u << 29) - 1)

struct segment {
	uint64_t offset, vaddr, file_size;
};

/* An executable section. */
struct region {
	uint64_t vaddr, size;
	uint32_t entry_size;
	bool plt;
};

struct symbols {
	int fd;
	uint16_t machine; /* EM_* */
	struct symbols_ids ids;
	uint64_t base; /* lowest address of code */
	struct extent strings;
	struct extent dynamic_symbols, dynamic_strings, plt_relocations, dynamic_relocations;
	struct segment *segments;
	struct region *regions;	       /* sorted by address */
	struct entry *entries;	       /* sorted by start, one each */
	struct function_ranges ranges; /* functions by the unwind tables, once they are needed */
	bool ranges_ready;
	size_t cap_bytes;
	uint32_t segment_count, region_count, entry_count;
};

/* --- sections --- */

static int source_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	return file_read_exactly(*(const int *)context, offset, buffer, length);
}

static bool extent_of(const struct elf_image *image, const struct elf_section *section,
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
	const struct region *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static bool is_plt(const char *name)
{
	return strcmp(name, ".plt") == 0 || strcmp(name, ".plt.sec") == 0 ||
	       strcmp(name, ".plt.got") == 0 || strcmp(name, ".iplt") == 0;
}

static int take_regions(struct symbols *symbols, const struct elf_image *image)
{
	struct region regions[REGIONS_MAX];
	uint32_t count = 0;

	for (unsigned int i = 0; i < image->section_count && count < REGIONS_MAX; i++) {
		const struct elf_section *section = &image->sections[i];

		if (!(section->flags & SHF_EXECINSTR) || !(section->flags & SHF_ALLOC) ||
		    section->size == 0 || section->size > UINT64_MAX - section->vaddr)
			continue;
		regions[count++] = (struct region){
		    .vaddr = section->vaddr,
		    .size = section->size,
		    .entry_size = section->entry_size >= 8 && section->entry_size <= 64
				      ? (uint32_t)section->entry_size
				      : PLT_ENTRY_BYTES,
		    .plt = section->name && is_plt(section->name),
		};
	}
	if (count == 0)
		return 0;
	qsort(regions, count, sizeof(regions[0]), compare_regions);
	symbols->regions = malloc(count * sizeof(regions[0]));
	if (!symbols->regions)
		return -ENOMEM;
	memcpy(symbols->regions, regions, count * sizeof(regions[0]));
	symbols->region_count = count;
	symbols->base = regions[0].vaddr;
	return 0;
}

static int take_segments(struct symbols *symbols, const struct elf_image *image)
{
	if (image->segment_count == 0)
		return 0;
	symbols->segments = malloc(image->segment_count * sizeof(symbols->segments[0]));
	if (!symbols->segments)
		return -ENOMEM;
	for (unsigned int i = 0; i < image->segment_count; i++) {
		symbols->segments[i] = (struct segment){
		    .offset = image->segments[i].offset,
		    .vaddr = image->segments[i].vaddr,
		    .file_size = image->segments[i].file_size,
		};
	}
	symbols->segment_count = image->segment_count;
	return 0;
}

/* Where names of PLT entries come from: the file is asked again when one is needed. */
static void take_relocations(struct symbols *symbols, const struct elf_image *image)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *section = &image->sections[i];

		if (section->type == SHT_DYNSYM && section->link < image->section_count) {
			extent_of(image, section, &symbols->dynamic_symbols);
			extent_of(image, &image->sections[section->link],
				  &symbols->dynamic_strings);
		}
		if (section->type != SHT_RELA || !section->name)
			continue;
		if (strcmp(section->name, ".rela.plt") == 0)
			extent_of(image, section, &symbols->plt_relocations);
		else if (strcmp(section->name, ".rela.dyn") == 0)
			extent_of(image, section, &symbols->dynamic_relocations);
	}
}

static const struct region *region_find(const struct symbols *symbols, uint64_t vaddr)
{
	uint32_t low = 0, high = symbols->region_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (symbols->regions[middle].vaddr <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || vaddr - symbols->regions[low - 1].vaddr >= symbols->regions[low - 1].size)
		return NULL;
	return &symbols->regions[low - 1];
}

/* --- making the index --- */

struct build {
	struct symbols *symbols;
	struct name_reader names;
	uint32_t count, capacity; /* entries: found; allocated */
	unsigned int comparisons;
};

static bool wanted(struct build *build, const struct elf_symbol *symbol)
{
	const struct region *region = region_find(build->symbols, symbol->value);

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

	build->count += wanted(build, symbol);
	return 0;
}

static int visit_store(void *context, const struct elf_symbol *symbol)
{
	struct build *build = context;

	if (!wanted(build, symbol))
		return 0;
	/* The file may have changed since the symbols were counted. */
	if (build->count == build->capacity)
		return 1;
	build->symbols->entries[build->count++] = (struct entry){
	    .start = (uint32_t)(symbol->value - build->symbols->base),
	    .size = symbol->size < ENTRY_SIZE_MAX ? (uint32_t)symbol->size & ENTRY_SIZE_MAX
						  : ENTRY_SIZE_MAX,
	    .rank = elf_symbol_rank(symbol) & ELF_SYMBOL_RANK_MAX,
	    .name = symbol->name,
	};
	return 0;
}

/* Show the table to `visit` chunk by chunk. What a truncated file no longer has is left out. */
static int table_each(struct build *build, struct extent table,
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
		if (file_read_exactly(build->symbols->fd, table.offset + at, chunk, length))
			return 0;
		r = elf_symbols_each(chunk, length, visit, build);
		at += length;
	}
	return 0;
}

static void insertion_sort(struct entry *entries, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct entry moved = entries[i];
		size_t at = i;

		for (; at > 0 && entries[at - 1].start > moved.start; at--)
			entries[at] = entries[at - 1];
		entries[at] = moved;
	}
}

/* By `start`: radix, in place, from the byte at `shift` down. The order of the symbols in a file is
 * somebody's choice; this takes no more memory (as qsort does) and no more time for any of them. */
static void radix_sort(struct entry *entries, size_t count, unsigned int shift)
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
			struct entry *entry = &entries[next[i]];
			unsigned int to = entry->start >> shift & 255;

			if (to == i) {
				next[i]++;
				continue;
			}
			struct entry swapped = entries[next[to]];
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

/* Is the name of `a` better than that of `b`, all else being equal? */
static bool name_is_better(struct build *build, const struct entry *a, const struct entry *b)
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

static bool entry_is_better(struct build *build, const struct entry *a, const struct entry *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	if ((a->size > 0) != (b->size > 0))
		return a->size > 0;
	return name_is_better(build, a, b);
}

/* Leave the best symbol of each address. A label without a size inside of a function that has one
 * is no function (a loop in hand-written assembly); it goes too. */
static void resolve_duplicates(struct build *build)
{
	struct entry *entries = build->symbols->entries;
	uint64_t sized_end = 0;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < build->count;) {
		struct entry best = entries[i];
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

static size_t fixed_bytes(const struct symbols *symbols)
{
	return sizeof(*symbols) + symbols->segment_count * sizeof(symbols->segments[0]) +
	       symbols->region_count * sizeof(symbols->regions[0]);
}

static int index_table(struct build *build, struct extent table, size_t cap_bytes)
{
	struct symbols *symbols = build->symbols;
	size_t fixed = fixed_bytes(symbols);
	struct entry *shrunk;
	int r;

	if (table.size > TABLE_BYTES_MAX)
		return -EFBIG;
	build->count = 0;
	r = table_each(build, table, visit_count);
	if (r || build->count == 0)
		return r;
	if (fixed > cap_bytes || build->count > (cap_bytes - fixed) / sizeof(struct entry))
		return -EFBIG;
	symbols->entries = malloc(build->count * sizeof(struct entry));
	if (!symbols->entries)
		return -ENOMEM;
	build->capacity = build->count;
	build->count = 0;
	r = table_each(build, table, visit_store);
	if (r)
		return r;
	radix_sort(symbols->entries, build->count, 24);
	resolve_duplicates(build);
	symbols->entry_count = build->count;
	symbols->strings = build->names.strings;
	shrunk =
	    realloc(symbols->entries, (build->count ? build->count : 1) * sizeof(struct entry));
	if (shrunk)
		symbols->entries = shrunk;
	return 0;
}

/* Index the first section of `type` (SHT_SYMTAB, SHT_DYNSYM), if its strings are there too. */
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
		    !extent_of(image, section, &table) ||
		    !extent_of(image, &image->sections[section->link], &strings))
			return 0;
		name_reader_init(&build->names, build->symbols->fd, strings);
		return index_table(build, table, cap_bytes);
	}
	return 0;
}

static int index_image(struct symbols *symbols, const struct elf_image *image, size_t cap_bytes)
{
	_cleanup_free_ struct build *build = malloc(sizeof(*build));
	int r;

	if (!build)
		return -ENOMEM;
	build->symbols = symbols;
	build->comparisons = 0;
	build->capacity = 0;
	symbol_file_to_hex(image->build_id, image->build_id_length, symbols->ids.gnu_build_id);
	memcpy(symbols->ids.go_build_id, image->go_build_id, sizeof(symbols->ids.go_build_id));
	symbols->machine = image->machine;
	r = take_segments(symbols, image);
	if (r == 0)
		r = take_regions(symbols, image);
	if (r)
		return r;
	take_relocations(symbols, image);
	if (fixed_bytes(symbols) > cap_bytes)
		return -EFBIG;
	/* Addresses in an object file that is not linked (ET_REL) are not addresses yet. */
	if (symbols->region_count == 0 || image->type == ET_REL)
		return 0;
	r = index_section(build, image, SHT_SYMTAB, cap_bytes);
	if (r == 0 && symbols->entry_count == 0) {
		free(TAKE_PTR(symbols->entries));
		r = index_section(build, image, SHT_DYNSYM, cap_bytes);
	}
	return r;
}

static void cleanup_symbols(struct symbols **symbols)
{
	symbols_free(*symbols);
}

int symbols_new(int fd, size_t cap_bytes, struct symbols **symbols)
{
	_cleanup_(cleanup_symbols) struct symbols *made = calloc(1, sizeof(*made));
	struct elf_source source = {.read = source_read, .context = &fd};
	struct elf_image image;
	struct stat stat;
	int r;

	if (!made)
		return -ENOMEM;
	made->fd = fd;
	made->cap_bytes = cap_bytes;
	if (fstat(fd, &stat) < 0)
		return -EIO;
	source.size = stat.st_size > 0 ? (uint64_t)stat.st_size : 0;
	symbol_file_hash(fd, source.size, made->ids.htlhash);

	r = elf_image_init(&image, &source);
	if (r == 0) {
		r = index_image(made, &image, cap_bytes);
		elf_image_fini(&image);
	} else if (r == -ENOEXEC || r == -ENODATA) {
		r = 0;
	}
	if (r)
		return r == -ENOMEM || r == -EFBIG ? r : -EIO;
	*symbols = TAKE_PTR(made);
	return 0;
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	free(symbols->segments);
	free(symbols->regions);
	free(symbols->entries);
	function_ranges_fini(&symbols->ranges);
	free(symbols);
}

/* --- asking --- */

size_t symbols_bytes(const struct symbols *symbols)
{
	return fixed_bytes(symbols) + symbols->entry_count * sizeof(struct entry) +
	       function_ranges_bytes(&symbols->ranges);
}

const struct symbols_ids *symbols_get_ids(const struct symbols *symbols)
{
	return &symbols->ids;
}

bool symbols_offset_to_vaddr(const struct symbols *symbols, uint64_t file_offset, uint64_t *vaddr)
{
	for (uint32_t i = 0; i < symbols->segment_count; i++) {
		const struct segment *segment = &symbols->segments[i];

		if (file_offset >= segment->offset &&
		    file_offset - segment->offset < segment->file_size) {
			*vaddr = segment->vaddr + (file_offset - segment->offset);
			return true;
		}
	}
	return false;
}

/* Entries that start at or below `start`. */
static uint32_t entries_up_to(const struct symbols *symbols, uint32_t start)
{
	uint32_t low = 0, high = symbols->entry_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (symbols->entries[middle].start <= start)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct entry *entry_find(const struct symbols *symbols, uint64_t vaddr)
{
	const struct region *region = region_find(symbols, vaddr);
	uint32_t start, count;

	if (!region || vaddr - symbols->base > UINT32_MAX)
		return NULL;
	start = (uint32_t)(vaddr - symbols->base);
	count = entries_up_to(symbols, start);
	const bool followed =
	    count < symbols->entry_count &&
	    symbols->base + symbols->entries[count].start - region->vaddr < region->size;
	for (unsigned int depth = 0; depth < ENCLOSING_DEPTH_MAX && count > 0; depth++) {
		const struct entry *entry = &symbols->entries[--count];

		if (start - entry->start < entry->size)
			return entry;
		/* One without a size ends where the next begins. Of a section's last one nothing
		 * says where it ends, and behind it may be functions without a name. */
		if (entry->size == 0 && depth == 0 &&
		    symbols->base + entry->start >= region->vaddr &&
		    (followed || start - entry->start < LAST_LABEL_BYTES))
			return entry;
	}
	return NULL;
}

static bool name_at(int fd, struct extent strings, uint32_t offset, const char *suffix,
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

static bool entry_to_symbol(const struct symbols *symbols, const struct entry *entry,
			    const char *suffix, struct symbol *symbol)
{
	if (!name_at(symbols->fd, symbols->strings, entry->name, suffix, symbol))
		return false;
	symbol->start_vaddr = symbols->base + entry->start;
	symbol->size = entry->size;
	return true;
}

/* --- procedure linkage tables --- */

/* The relocation of GOT slot `slot` in a table; false if there is none. */
static bool relocation_find(int fd, struct extent table, uint64_t slot,
			    struct elf_relocation *relocation)
{
	uint8_t chunk[ELF_RELOCATION_BYTES * 128];
	uint64_t size = table.size < RELOCATIONS_BYTES_MAX ? table.size : RELOCATIONS_BYTES_MAX;

	for (uint64_t at = 0; at < size; at += sizeof(chunk)) {
		size_t length = size - at < sizeof(chunk) ? (size_t)(size - at) : sizeof(chunk);

		if (file_read_exactly(fd, table.offset + at, chunk, length))
			return false;
		struct cursor c = cursor_init(chunk, length);
		while (elf_relocation_read(&c, relocation)) {
			if (relocation->offset == slot)
				return true;
		}
	}
	return false;
}

static bool relocation_get(int fd, struct extent table, uint32_t index,
			   struct elf_relocation *relocation)
{
	uint64_t at = (uint64_t)index * ELF_RELOCATION_BYTES;
	uint8_t bytes[ELF_RELOCATION_BYTES];

	if (at >= table.size || file_read_exactly(fd, table.offset + at, bytes, sizeof(bytes)))
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	return elf_relocation_read(&c, relocation);
}

static bool relocation_to_symbol(const struct symbols *symbols,
				 const struct elf_relocation *relocation, struct symbol *symbol)
{
	uint64_t at = (uint64_t)relocation->symbol * ELF_SYMBOL_BYTES;
	uint8_t bytes[ELF_SYMBOL_BYTES];
	struct elf_symbol target;

	/* A function chosen at load time has no symbol, but the address of its resolver. */
	if (relocation->symbol == 0) {
		const struct entry *entry = entry_find(symbols, (uint64_t)relocation->addend);

		return entry && entry_to_symbol(symbols, entry, "@plt", symbol);
	}
	if (at >= symbols->dynamic_symbols.size ||
	    file_read_exactly(symbols->fd, symbols->dynamic_symbols.offset + at, bytes,
			      sizeof(bytes)))
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	return elf_symbol_read(&c, &target) &&
	       name_at(symbols->fd, symbols->dynamic_strings, target.name, "@plt", symbol);
}

/* How far `vaddr` is into its entry. The first entry of .plt is longer than the others on arm64. */
static uint64_t plt_into_entry(const struct symbols *symbols, const struct region *region,
			       uint64_t vaddr)
{
	const uint64_t header = symbols->machine == EM_AARCH64 ? 32 : 0;
	const uint64_t into = vaddr - region->vaddr;

	return into < header ? into : (into - header) % region->entry_size;
}

static bool plt_find(const struct symbols *symbols, const struct region *region,
		     uint64_t file_offset, uint64_t vaddr, struct symbol *symbol)
{
	uint64_t into_entry = plt_into_entry(symbols, region, vaddr);
	uint8_t code[PLT_ENTRY_BYTES];
	struct elf_plt_target target;
	struct elf_relocation relocation;
	bool found;

	if (into_entry > file_offset ||
	    file_read_exactly(symbols->fd, file_offset - into_entry, code, sizeof(code)) ||
	    !elf_plt_decode(symbols->machine, code, sizeof(code), vaddr - into_entry, &target))
		return false;
	if (target.slot)
		found = relocation_find(symbols->fd, symbols->plt_relocations, target.slot,
					&relocation) ||
			relocation_find(symbols->fd, symbols->dynamic_relocations, target.slot,
					&relocation);
	else
		found = relocation_get(symbols->fd, symbols->plt_relocations, target.index,
				       &relocation);
	if (!found || !relocation_to_symbol(symbols, &relocation, symbol))
		return false;
	symbol->start_vaddr = vaddr - into_entry;
	symbol->size = region->entry_size;
	return true;
}

bool symbols_find(const struct symbols *symbols, uint64_t file_offset, struct symbol *symbol)
{
	const struct region *region;
	const struct entry *entry;
	struct symbol found;
	uint64_t vaddr;
	bool ok;

	if (!symbols_offset_to_vaddr(symbols, file_offset, &vaddr))
		return false;
	region = region_find(symbols, vaddr);
	entry = entry_find(symbols, vaddr);
	if (entry)
		ok = entry_to_symbol(symbols, entry, "", &found);
	else
		ok = region && region->plt && plt_find(symbols, region, file_offset, vaddr, &found);
	if (ok)
		*symbol = found;
	return ok;
}

/* Most files have symbols for all of their code that runs, so the unwind tables are looked at only
 * when the first frame without a symbol comes. If that fails, such frames keep their address. */
static void ranges_prepare(struct symbols *symbols)
{
	struct elf_source source = {.read = source_read, .context = &symbols->fd};
	const size_t used = symbols_bytes(symbols);
	struct elf_image image;
	struct stat stat;

	symbols->ranges_ready = true;
	if (used >= symbols->cap_bytes || fstat(symbols->fd, &stat) < 0 || stat.st_size <= 0)
		return;
	source.size = (uint64_t)stat.st_size;
	if (elf_image_init(&image, &source) < 0)
		return;
	function_ranges_init(&symbols->ranges, &image, symbols->cap_bytes - used);
	elf_image_fini(&image);
}

bool symbols_find_start(struct symbols *symbols, uint64_t file_offset, uint64_t *start_vaddr)
{
	const struct elf_source source = {
	    .read = source_read, .context = &symbols->fd, .size = UINT64_MAX};
	struct function_range range;
	uint64_t vaddr;

	if (!symbols_offset_to_vaddr(symbols, file_offset, &vaddr))
		return false;
	/* One FDE covers the whole of a procedure linkage table. */
	const struct region *region = region_find(symbols, vaddr);
	if (region && region->plt) {
		*start_vaddr = vaddr - plt_into_entry(symbols, region, vaddr);
		return true;
	}
	if (!symbols->ranges_ready)
		ranges_prepare(symbols);
	if (!function_ranges_find(&symbols->ranges, &source, vaddr, &range))
		return false;
	*start_vaddr = range.start;
	return true;
}
