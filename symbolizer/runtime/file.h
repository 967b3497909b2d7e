/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF file of a runtime: its symbols and its read-only data, by name and virtual address. */
#ifndef SYMBOLIZER_RUNTIME_FILE_H
#define SYMBOLIZER_RUNTIME_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

struct runtime_file {
	const char *path; /* as the process sees it; a hint, whoever chose it */
	struct elf_image image;
	/* .dynsym, and its hash table that makes looking up cheap: one of the two, or both */
	const struct elf_section *dynamic_symbols, *dynamic_strings, *gnu_hash, *hash;
	const struct elf_section *symbols, *strings; /* .symtab; NULL if stripped */
};

struct runtime_symbol {
	uint64_t vaddr, size;
};

/* Of the file behind `fd`, borrowed. 0, or what elf_image_init returns. */
int runtime_file_init(struct runtime_file *file, int fd, const char *path);
void runtime_file_fini(struct runtime_file *file);

/* A defined dynamic symbol, by .gnu.hash or .hash: some reads. 0 or -ENOENT. */
int runtime_file_exported(const struct runtime_file *file, const char *name,
			  struct runtime_symbol *symbol);

/* A symbol of .symtab, local ones too; reads all of the table, so only for a file that is known to
 * be a runtime.. 0 or -ENOENT. */
int runtime_file_local(const struct runtime_file *file, const char *name,
		       struct runtime_symbol *symbol);

/* Exactly `length` bytes of the file's contents at a virtual address. 0, -ENODATA. */
int runtime_file_read(const struct runtime_file *file, uint64_t vaddr, void *buffer, size_t length);

#endif
