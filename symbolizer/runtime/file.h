/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF file of a runtime: looks up its symbols by name, and reads its contents by virtual
 * address. The file may hold any bytes and may change at any moment. */
#ifndef SYMBOLIZER_RUNTIME_FILE_H
#define SYMBOLIZER_RUNTIME_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"
#include "parse/elf_lookup.h"

struct runtime_file {
	const char *path; /* as the process sees it: chosen by its owner, good as a hint only */
	struct elf_image image;
	struct elf_lookup symbols;
};

struct runtime_symbol {
	uint64_t vaddr, size;
};

/* Opens the file that `fd` refers to. `fd` and `path` are borrowed until runtime_file_fini(), and
 * `file` must stay where it is. Returns 0, or an error of elf_image_init(). */
int runtime_file_init(struct runtime_file *file, int fd, const char *path);
void runtime_file_fini(struct runtime_file *file);

/* Finds a defined dynamic symbol through .gnu.hash or .hash, with a few small reads. Returns 0 or
 * -ENOENT. */
int runtime_file_exported(const struct runtime_file *file, const char *name,
			  struct runtime_symbol *symbol);

/* Does what elf_lookup_slot() does, for a library only: what a program has is never taken over. */
int runtime_file_slot(const struct runtime_file *file, const char *name, uint64_t *vaddr);

/* Finds a symbol of .symtab, which may be a local one. The first call reads the whole table, and
 * each searches it, so it is meant for files that were recognised as a runtime. Returns 0 or
 * -ENOENT. */
int runtime_file_local(const struct runtime_file *file, const char *name,
		       struct runtime_symbol *symbol);

/* Reads exactly `length` bytes of the file's contents at a virtual address. Returns 0, or -ENODATA
 * if the file does not have them there. */
int runtime_file_read(const struct runtime_file *file, uint64_t vaddr, void *buffer, size_t length);

#endif
