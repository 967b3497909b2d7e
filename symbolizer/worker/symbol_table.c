/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of the functions of an ELF file, which symbols.h uses: it is built from the headers and
 * the symbol table of the file, then searched by address.
 *
 * How this works:
 * - The symbol table is read twice in chunks of 48 KiB: first to count the functions in it, so that
 *   the index is allocated once, then to store them. .symtab is used; .dynsym is used only if there
 *   is no .symtab, or it has no functions; and with it the table in .gnu_debugdata, which has what
 *   is not in .dynsym, or the builtins of V8. The names of these two stay in memory.
 * - The entries are sorted by address (symbol_sort.c).
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

#include "common/array.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/file_read.h"
#include "common/search.h"
#include "parse/debug_data.h"
#include "parse/v8_names.h"
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

/* --- symbols --- */

/* A symbol table, and where its names are in the tables of names. */
struct build_table {
	struct elf_source source;
	struct extent symbols;
	const struct v8_names *builtins; /* in the place of these two; NULL: it is no such table */
	uint64_t names_from, names_size;
};

enum {
	BUILD_TABLES_MAX = 2
};

struct build {
	struct symbols *symbols;
	int fd;	       /* of the file with the symbol table */
	bool complete; /* tables that are cut off by the end of the file are not used */
	struct build_table tables[BUILD_TABLES_MAX];
	unsigned int table_count;
	const struct build_table *table; /* the one that is being read */
	struct name_tables names;
	struct name_reader reader;
	struct symbol_entry *entries;
	uint32_t count;	 /* of the entries that were found */
	size_t capacity; /* of the memory for them */
	unsigned int comparisons;
};

static bool is_wanted(struct build *build, const struct elf_symbol *symbol)
{
	const struct symbol_region *region =
	    symbol_sections_find_region(build->symbols, symbol->value);

	if (!elf_symbol_is_function(symbol, region != NULL) ||
	    symbol->name >= build->table->names_size ||
	    symbol->value - build->symbols->base > UINT32_MAX)
		return false;
	if (build->symbols->machine != EM_X86_64 && elf_symbol_maybe_mapping(symbol)) {
		const char *name =
		    name_reader_get(&build->reader, build->table->names_from + symbol->name);

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
	    .name = (uint32_t)(build->table->names_from + symbol->name),
	};
	return 0;
}

/* Passes each symbol of a table to `visit`. Symbols that a truncated file no longer has are left
 * out. Returns what `visit` has returned at last. */
static int read_table(struct build *build, const struct build_table *table, uint8_t *chunk,
		      int (*visit)(void *context, const struct elf_symbol *symbol))
{
	const struct extent *symbols = &table->symbols;
	int r = 0;

	build->table = table;
	for (uint64_t at = 0; at < symbols->size && r == 0;) {
		size_t length = TABLE_CHUNK_BYTES;

		if (length > symbols->size - at)
			length = (size_t)(symbols->size - at);
		if (table->source.read(table->source.context, symbols->offset + at, chunk, length))
			return 0;
		r = elf_symbols_each(chunk, length, visit, build);
		at += length;
	}
	return r;
}

/* Does the same with the builtins of V8. */
static int read_builtins(struct build *build, const struct build_table *table,
			 int (*visit)(void *context, const struct elf_symbol *symbol))
{
	int r = 0;

	build->table = table;
	for (unsigned int i = 0; i < table->builtins->count && r == 0; i++) {
		const struct v8_name *name = &table->builtins->names[i];
		const struct elf_symbol symbol = {.value = name->vaddr,
						  .size = name->bytes,
						  .name = name->text,
						  .section = 1,
						  .type = STT_FUNC,
						  .bind = STB_LOCAL};

		r = visit(build, &symbol);
	}
	return r;
}

/* Passes each symbol of all tables to `visit`, until it returns nonzero. Returns 0 or -ENOMEM. */
static int read_tables(struct build *build,
		       int (*visit)(void *context, const struct elf_symbol *symbol))
{
	_cleanup_free_ uint8_t *chunk = malloc(TABLE_CHUNK_BYTES);
	int r = 0;

	if (!chunk)
		return -ENOMEM;
	for (unsigned int i = 0; i < build->table_count && r == 0; i++)
		r = build->tables[i].builtins ? read_builtins(build, &build->tables[i], visit)
					      : read_table(build, &build->tables[i], chunk, visit);
	return 0;
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
	name = name_reader_get(&build->reader, b->name);
	if (!name)
		return true;
	length = strnlen(name, sizeof(other) - 1);
	memcpy(other, name, length);
	other[length] = '\0';
	name = name_reader_get(&build->reader, a->name);
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
	       symbols->region_count * sizeof(symbols->regions[0]) + symbols->names.more.length;
}

/* Takes the index that was built, in the place of the one that is there. */
static void take_index(struct build *build)
{
	struct symbols *symbols = build->symbols;

	ARRAY_FIT(build->entries, build->capacity, build->count);
	free(symbols->entries);
	free((void *)symbols->names.more.data);
	symbols->entries = build->entries;
	symbols->entry_count = build->count;
	symbols->names = build->names;
	build->entries = NULL;
	build->names.more = (struct elf_buffer){0};
}

/* Indexes all tables of a build. Returns 0, also if there is no function in them; -EFBIG; or
 * -ENOMEM. */
static int index_tables(struct build *build, size_t cap_bytes)
{
	const struct symbols *symbols = build->symbols;
	/* Everything but the entries and their names, in whose place these come. */
	const size_t fixed = symbol_table_fixed_bytes(symbols) - symbols->names.more.length +
			     build->names.more.length + function_ranges_bytes(&symbols->ranges) +
			     namer_bytes(&symbols->namer);
	int r;

	name_reader_init(&build->reader, &build->names);
	build->count = 0;
	r = read_tables(build, visit_count);
	if (r || build->count == 0)
		return r;
	if (fixed > cap_bytes || build->count > (cap_bytes - fixed) / sizeof(struct symbol_entry))
		return -EFBIG;
	build->entries = malloc(build->count * sizeof(struct symbol_entry));
	if (!build->entries)
		return -ENOMEM;
	build->capacity = build->count;
	build->count = 0;
	r = read_tables(build, visit_store);
	if (r) {
		free(TAKE_PTR(build->entries));
		return r;
	}
	symbol_sort(build->entries, build->count);
	resolve_duplicates(build);
	take_index(build);
	return 0;
}

/* Finds the first section of `type` (SHT_SYMTAB, SHT_DYNSYM) with its strings. Returns false if
 * they are not there. */
static bool find_table(const struct build *build, const struct elf_image *image, uint32_t type,
		       struct extent *table, struct extent *strings)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *section = &image->sections[i];

		if (section->type != type || section->entry_size != ELF_SYMBOL_BYTES)
			continue;
		return section->link < image->section_count &&
		       image->sections[section->link].type == SHT_STRTAB &&
		       symbol_sections_extent(image, section, table) &&
		       symbol_sections_extent(image, &image->sections[section->link], strings) &&
		       (!build->complete || (table->size == section->size &&
					     strings->size == image->sections[section->link].size));
	}
	return false;
}

/* Adds the first table of `type` of the file. Returns 0 or -EFBIG. */
static int add_table(struct build *build, const struct elf_image *image, uint32_t type)
{
	struct extent table, strings;

	if (!find_table(build, image, type, &table, &strings))
		return 0;
	if (table.size > TABLE_BYTES_MAX)
		return -EFBIG;
	build->names.strings = strings;
	build->tables[build->table_count++] = (struct build_table){
	    .source = {.read = file_read_from, .context = &build->fd, .size = image->source.size},
	    .symbols = table,
	    .names_size = strings.size};
	return 0;
}

static int index_section(struct build *build, const struct elf_image *image, uint32_t type,
			 size_t cap_bytes)
{
	const int r = add_table(build, image, type);

	return r ? r : index_tables(build, cap_bytes);
}

/* Adds the table of an image in memory, with a copy of its names. Returns 0, also if there is none
 * that can be used, or -ENOMEM. */
static int add_packed_table(struct build *build, const struct elf_image *image)
{
	const struct elf_buffer *buffer = image->source.context;
	const uint64_t before = build->names.strings.size;
	struct extent table, strings;

	if (!symbol_sections_are_of(build->symbols, image) ||
	    !find_table(build, image, SHT_SYMTAB, &table, &strings) ||
	    before > UINT32_MAX - strings.size)
		return 0;
	uint8_t *names = malloc((size_t)strings.size);
	if (!names)
		return -ENOMEM;
	memcpy(names, (const uint8_t *)buffer->data + strings.offset, (size_t)strings.size);
	build->names.more = (struct elf_buffer){names, (size_t)strings.size};
	build->tables[build->table_count++] = (struct build_table){.source = image->source,
								   .symbols = table,
								   .names_from = before,
								   .names_size = strings.size};
	return 0;
}

/* Indexes the functions of .dynsym and of .gnu_debugdata. Returns 0; -ENOENT: the latter has none
 * that can be used; -EFBIG; or -ENOMEM. */
static int index_packed(struct build *build, const struct elf_image *image, size_t cap_bytes)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct elf_buffer buffer;
	struct elf_image packed;
	size_t length;

	int r = debug_data_read(image, &data, &length);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	buffer = (struct elf_buffer){data, length};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	r = elf_image_init_sections(&packed, &source);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	r = add_table(build, image, SHT_DYNSYM);
	if (r == 0)
		r = add_packed_table(build, &packed);
	if (r == 0)
		r = build->names.more.data ? index_tables(build, cap_bytes) : -ENOENT;
	elf_image_fini(&packed);
	return r;
}

/* Indexes the functions of .dynsym and the builtins of V8. Returns as index_packed(). */
static int index_builtins(struct build *build, const struct elf_image *image, size_t cap_bytes)
{
	struct v8_names builtins;
	int r = v8_names_read(&builtins, image);

	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	r = add_table(build, image, SHT_DYNSYM);
	if (r == 0) {
		build->names.more = (struct elf_buffer){builtins.texts, builtins.texts_bytes};
		builtins.texts = NULL;
		build->tables[build->table_count++] =
		    (struct build_table){.builtins = &builtins,
					 .names_from = build->names.strings.size,
					 .names_size = builtins.texts_bytes};
		r = index_tables(build, cap_bytes);
	}
	v8_names_fini(&builtins);
	return r;
}

static struct build *build_new(struct symbols *symbols, int fd)
{
	struct build *build = calloc(1, sizeof(*build));

	if (build) {
		build->symbols = symbols;
		build->fd = build->names.fd = fd;
	}
	return build;
}

/* Starts again with other tables. */
static void build_reset(struct build *build)
{
	build->table_count = 0;
	free((void *)build->names.more.data);
	build->names = (struct name_tables){.fd = build->fd};
}

/* Indexes what a stripped file has: .dynsym and .gnu_debugdata, or the builtins of V8; if neither
 * can be used or both are too large, .dynsym alone. Returns 0, -EFBIG or -ENOMEM. */
static int index_stripped(struct build *build, const struct elf_image *image, size_t cap_bytes)
{
	int r;

	build_reset(build);
	r = index_packed(build, image, cap_bytes);
	build_reset(build);
	if (r == -ENOENT) {
		r = index_builtins(build, image, cap_bytes);
		build_reset(build);
	}
	return r == 0 || r == -ENOMEM ? r : index_section(build, image, SHT_DYNSYM, cap_bytes);
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
	r = symbol_sections_read(symbols, image);
	if (r)
		return r;
	if (symbol_table_fixed_bytes(symbols) > cap_bytes)
		return -EFBIG;
	if (symbols->region_count == 0)
		return 0;
	r = index_section(build, image, SHT_SYMTAB, cap_bytes);
	symbols->has_symtab = symbols->entry_count > 0;
	if (r == 0 && !symbols->has_symtab)
		r = index_stripped(build, image, cap_bytes);
	return r;
}

int symbol_table_replace(struct symbols *symbols, const struct elf_image *image, int fd)
{
	_cleanup_free_ struct build *build = build_new(symbols, fd);

	if (!build)
		return -ENOMEM;
	/* A part of it would not be better than what is there. */
	build->complete = true;
	int r = index_section(build, image, SHT_SYMTAB, symbols->cap_bytes);
	symbols->has_symtab |= symbols->names.fd == fd;
	return r;
}

/* --- lookup --- */

/* Returns the number of entries that start at or below `start`. */
static uint32_t entries_up_to(const struct symbols *symbols, uint32_t start)
{
	return (uint32_t)SEARCH_LOWER_BOUND(i, symbols->entry_count,
					    symbols->entries[i].start <= start);
}

const struct symbol_entry *symbol_table_find_entry(const struct symbols *symbols, uint64_t vaddr)
{
	const struct symbol_region *region = symbol_sections_find_region(symbols, vaddr);
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

bool symbol_table_read_name(const struct name_tables *tables, uint32_t offset, const char *suffix,
			    struct symbol *symbol)
{
	struct name_reader reader;
	const char *raw;
	size_t length;

	name_reader_init(&reader, tables);
	raw = name_reader_get(&reader, offset);
	if (!raw)
		return false;
	length = symbol_name_format(raw, symbol->name, sizeof(symbol->name) - strlen(suffix));
	escape_text(symbol->system_name, sizeof(symbol->system_name), raw, strlen(raw),
		    ESCAPE_KEEP_PRINTABLE, NULL);
	if (suffix[0] || strcmp(symbol->system_name, symbol->name) == 0)
		symbol->system_name[0] = '\0';
	memcpy(symbol->name + length, suffix, strlen(suffix) + 1);
	return true;
}

bool symbol_table_read_entry(const struct symbols *symbols, const struct symbol_entry *entry,
			     const char *suffix, struct symbol *symbol)
{
	if (!symbol_table_read_name(&symbols->names, entry->name, suffix, symbol))
		return false;
	symbol->start_vaddr = symbols->base + entry->start;
	symbol->size = entry->size;
	return true;
}
