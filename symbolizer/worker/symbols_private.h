/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of symbols.h share: symbols.c (creation and lookup), symbol_sections.c (where code
 * and tables are), symbol_table.c (building the index), symbol_sort.c (sorting it), symbol_debug.c
 * (debug files) and symbol_plt.c (names of procedure linkage tables). */
#ifndef SYMBOLIZER_WORKER_SYMBOLS_PRIVATE_H
#define SYMBOLIZER_WORKER_SYMBOLS_PRIVATE_H

#include "parse/elf_image.h"
#include "parse/elf_symbols.h"
#include "parse/function_ranges.h"
#include "symbolizer/namer/namer.h"
#include "symbolizer/worker/symbol_file.h"
#include "symbolizer/worker/symbols.h"

/* A function in the index, 12 bytes. Its size is capped at 29 bits. The rank (elf_symbol_rank()) is
 * only used while the index is built. */
struct symbol_entry {
	uint32_t start; /* from `base` */
	uint32_t size : 29;
	uint32_t rank : 3;
	uint32_t name; /* offset in the string table */
};
_Static_assert(sizeof(struct symbol_entry) == 12, "the index is meant to be compact");

struct symbol_segment {
	uint64_t offset, vaddr, file_size;
	bool executable;
};

/* An executable section. */
struct symbol_region {
	uint64_t vaddr, size;
	uint32_t entry_size; /* of a procedure linkage table */
	bool plt;
};

/* The debug file that .gnu_debuglink names. */
struct symbol_link {
	char *name;   /* NULL: there is none, or it is not needed */
	uint32_t crc; /* of the file */
};

struct symbols {
	int fd;
	int namer_fd; /* of the file with the tables of the namer: the file, or its debug file */
	/* Of the further files of the namer, which are owned. */
	int further_fds[NAMER_FILES_MAX];
	unsigned int further_count;
	/* Of the entries: in the file or its debug file, and, in memory that is owned, those of
	 * .gnu_debugdata or of V8's builtins. */
	struct name_tables names;
	bool has_symtab;  /* the functions are those of a .symtab */
	uint16_t machine; /* EM_* */
	uint8_t build_id[SYMBOLS_BUILD_ID_BYTES];
	size_t build_id_length;
	struct symbol_link link;
	struct symbols_ids ids;
	uint64_t base; /* lowest address of code */
	struct extent dynamic_symbols, dynamic_strings, plt_relocations, dynamic_relocations;
	struct symbol_segment *segments;
	struct symbol_region *regions; /* sorted by address */
	struct symbol_entry *entries;  /* sorted by start, one for each address */
	uint32_t segment_count, region_count, entry_count;
	struct function_ranges ranges; /* functions by the unwind tables, once they are needed */
	bool ranges_ready;
	struct namer namer;
	uint64_t cached_file; /* its number in the cache of the worker */
	size_t cap_bytes;
};

/* symbols.c */

/* Closes the further files of the namer, which must be closed. */
void symbols_close_further(struct symbols *symbols);

/* symbol_sections.c */

/* Reads where the segments, the executable sections and the tables of relocations are. Returns 0 or
 * -ENOMEM. */
int symbol_sections_read(struct symbols *symbols, const struct elf_image *image);

/* Finds where the contents of a section are, as far as the file has them. Returns false if they are
 * nowhere, or compressed. */
bool symbol_sections_extent(const struct elf_image *image, const struct elf_section *section,
			    struct extent *extent);

/* Returns whether the code of the image is where that of the file is: a debug file has the headers
 * of all sections. True if the file itself has none. */
bool symbol_sections_are_of(const struct symbols *symbols, const struct elf_image *image);

/* Returns the executable section that contains an address, or NULL. */
const struct symbol_region *symbol_sections_find_region(const struct symbols *symbols,
							uint64_t vaddr);

/* symbol_table.c */

/* Builds the index from the headers and the symbol table of the file. Returns 0, -EFBIG or
 * -ENOMEM. */
int symbol_table_build(struct symbols *symbols, const struct elf_image *image, size_t cap_bytes);

/* Indexes the functions of the .symtab of the debug file `fd` in the place of those that are there,
 * if it has any. Returns 0, -EFBIG or -ENOMEM, and then nothing has changed. */
int symbol_table_replace(struct symbols *symbols, const struct elf_image *image, int fd);

/* Returns the memory of everything but the entries and the ranges, in bytes. */
size_t symbol_table_fixed_bytes(const struct symbols *symbols);

/* Returns the entry of the function that contains an address, or NULL. */
const struct symbol_entry *symbol_table_find_entry(const struct symbols *symbols, uint64_t vaddr);

/* Reads a name at `offset` of string tables, demangled, with `suffix` appended. Returns false if
 * there is none. */
bool symbol_table_read_name(const struct name_tables *tables, uint32_t offset, const char *suffix,
			    struct symbol *symbol);
bool symbol_table_read_entry(const struct symbols *symbols, const struct symbol_entry *entry,
			     const char *suffix, struct symbol *symbol);

/* symbol_sort.c */

/* Sorts entries by `start`. */
void symbol_sort(struct symbol_entry *entries, size_t count);

/* symbol_plt.c */

/* Returns how far `vaddr` is into its entry of a procedure linkage table. */
uint64_t symbol_plt_into_entry(const struct symbols *symbols, const struct symbol_region *region,
			       uint64_t vaddr);

/* Finds the name of the function that an entry of a procedure linkage table jumps to, with
 * "@plt". */
bool symbol_plt_find(const struct symbols *symbols, const struct symbol_region *region,
		     uint64_t file_offset, uint64_t vaddr, struct symbol *symbol);

#endif
