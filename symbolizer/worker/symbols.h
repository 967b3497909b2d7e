/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names of one ELF file.
 *
 * How this works:
 * - When a module's first frame is named, an index of its functions is built from .symtab or, where
 *   there is none, from .dynsym and .gnu_debugdata: 12 bytes for each function, sorted by address,
 *   without the names (symbol_table.c). Only those of .gnu_debugdata, which is compressed, are in
 *   memory.
 * - A lookup is a binary search in the index. The name is read from the file at that moment and
 *   demangled (symbol_name.c); the worker keeps the result under the frame's id, so each name is
 *   read once.
 * - Entries of procedure linkage tables get the name of the function that they jump to
 *   (symbol_plt.c).
 * - A file with tables that say more than symbols has a namer, which is asked first
 *   (symbolizer/namer/namer.h).
 * - A stripped file may have a debug file somewhere else, with .symtab and debug information
 *   (symbol_debug.c). It belongs to the file if it has the same build id, or the checksum that the
 *   file has for it, and its code is at the same place. Its addresses are those of the file, and
 *   the file says how they are related to file offsets.
 * - Where there is no symbol, the unwind tables say where the function starts
 *   (parse/function_ranges.h).
 *
 * Example: /bin/x has a function `_ZN1a1bEv` at 0x1200 with 0x40 bytes, in a segment that is loaded
 * from file offset 0x200 to 0x1200. symbols_find() of offset 0x210 gives "a::b", start 0x1200.
 * symbols_find() of offset 0x250 gives nothing; symbols_find_start() may give 0x1240.
 */
#ifndef SYMBOLIZER_WORKER_SYMBOLS_H
#define SYMBOLIZER_WORKER_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct namer_wanted;
struct elf_cache;
struct named_frames;
struct symbols;

enum {
	SYMBOL_NAME_MAX = 1024, /* bytes of a demangled name, NUL included; longer ones are cut */
	SYMBOLS_BUILD_ID_BYTES = 20,
};

struct symbol {
	/* Demangled and printable: control characters and invalid UTF-8 are escaped. */
	char name[SYMBOL_NAME_MAX];
	/* As the linker knows it, printable, too; "" if it is the same. */
	char system_name[SYMBOL_NAME_MAX];
	uint64_t start_vaddr; /* of the function, as linked */
	uint64_t size;	      /* bytes, 0 if the file does not have it */
};

struct symbols_ids {
	char gnu_build_id[41]; /* hex, "" if none */
	char htlhash[33]; /* hex of 16 bytes of SHA-256(first 4096 ++ last 4096 ++ be64 length), see
			     OTLP profiles */
	char go_build_id[96]; /* as printed by `go tool buildid`, "" if none */
};

/* Indexes the file of `fd`, which is borrowed and must stay open as long as the index lives. The
 * index takes at most `cap_bytes` of memory. A file that is not ELF or has no symbols gives an
 * empty index, not an error. Returns 0; -ENOMEM; -EIO; or -EFBIG if the file has more symbols than
 * fit, and the caller can only show module and offset. The caller frees `*symbols`. */
int symbols_new(int fd, size_t cap_bytes, struct symbols **symbols);
void symbols_free(struct symbols *symbols);

/* Returns the length of the GNU build id of a file that lacks debug information, so that a debug
 * file may say more, or 0. `*id` is valid as long as the index. */
size_t symbols_want_debug(const struct symbols *symbols, const uint8_t **id);

/* Returns the name that a file which lacks debug information has for its debug file
 * (parse/debug_link.h), or "". It is valid as long as the index. */
const char *symbols_debug_link(const struct symbols *symbols);

/* Adds what a debug file says: its functions, if the file has no .symtab itself, and its namer. The
 * descriptor is borrowed, and must stay open as long as the index. symbols_bytes() may change.
 * Returns 0; -ENOENT: it is not the debug file of this file, because its build id (or, if the file
 * has none, its checksum) or the place of its code is another one; -ENOEXEC: it is no ELF file;
 * -EFBIG; -ENOMEM; or -EIO. */
int symbols_add_debug(struct symbols *symbols, int fd);

/* Returns the further file (symbolizer/namer/namer.h) that the namer wants now, or NULL. It is
 * valid until the next call that is not const. */
const struct namer_wanted *symbols_wanted(const struct symbols *symbols);

/* Adds the file that is wanted. symbols_bytes() may change. Returns 0, and then the descriptor
 * belongs to the index; -ENOENT: it is another file; -ENOEXEC: it is no ELF file with debug
 * information; -EFBIG; -ENOMEM; or -EIO. */
int symbols_add_wanted(struct symbols *symbols, int fd);

/* Says that there is no such file, so that it is not wanted any more. */
void symbols_do_without(struct symbols *symbols);

/* Returns how many further files are open. */
unsigned int symbols_further_files(const struct symbols *symbols);

/* Drops the namer of the debug file, which symbols_add_debug() adds again, and its further files.
 * Returns the bytes of memory that were freed; 0: there is none. */
size_t symbols_drop_debug(struct symbols *symbols);

/* Returns the memory that the index holds, in bytes. */
size_t symbols_bytes(const struct symbols *symbols);

/* Returns the identities of the file, read when the index was made. */
const struct symbols_ids *symbols_get_ids(const struct symbols *symbols);

/* Converts a file offset to a virtual address as linked (PT_LOAD). Returns false if no segment has
 * it. */
bool symbols_offset_to_vaddr(const struct symbols *symbols, uint64_t file_offset, uint64_t *vaddr);

/* Returns whether the file has code, and where its first segment of code starts, as linked and in
 * the file. */
bool symbols_code_start(const struct symbols *symbols, uint64_t *vaddr, uint64_t *file_offset);

/* Returns whether the file has a namer (symbolizer/namer/namer.h). */
bool symbols_have_namer(const struct symbols *symbols);

/* Names the file offset by the namer of the file, which knows lines and inlined functions, too. The
 * file is read through `cache`, if it is not NULL. symbols_bytes() may change. Returns 0; or, with
 * `frames` undefined, -ENOENT: the file has none, or it does not know the offset; -EAGAIN: a part
 * of the work was done, and the offset has to be asked for again; -EINPROGRESS: a further file is
 * wanted since now, and the offset should be asked for again when there is one, or none. */
int symbols_find_frames(struct symbols *symbols, struct elf_cache *cache, uint64_t file_offset,
			struct named_frames *frames);

/* Finds the function that contains the file offset: the nearest symbol at or below it, if the
 * offset is inside its size (or it has none and is the nearest in its section). Returns false if
 * there is none. */
bool symbols_find(const struct symbols *symbols, uint64_t file_offset, struct symbol *symbol);

/* Finds the start of the function that contains the file offset, for offsets without a symbol: a
 * virtual address as linked, from the unwind tables. Each entry of a procedure linkage table counts
 * as a function. Returns 0; or, with `start_vaddr` untouched, -ENOENT: the tables do not cover the
 * offset or cannot be read; or -EAGAIN: symbols_index_ranges() has to be called first. */
int symbols_find_start(const struct symbols *symbols, uint64_t file_offset, uint64_t *start_vaddr);

/* Prepares lookups in the unwind tables. Most files have symbols for all of their code that runs,
 * so this waits for the first frame without a symbol. It may build an index, within the cap of
 * symbols_new(), so that symbols_bytes() grows. If it fails, no start is found. */
void symbols_index_ranges(struct symbols *symbols);

#endif
