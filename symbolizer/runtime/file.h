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
#include "symbolizer/runtime/memory.h"

struct runtime_file {
	const char *path; /* as the process sees it: chosen by its owner, good as a hint only */
	struct elf_image image;
	struct elf_lookup symbols;
	uint32_t wanted; /* a set of common/runtimes.h: says which extras are wanted */
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

/* A variable of the file. Addresses are virtual addresses of the file. */
struct runtime_variable {
	uint64_t vaddr;
	/* Where the dynamic linker has written its address, because the program that uses a library
	 * may have taken over its variable (elf_lookup_slot()); 0: it is in this file. */
	uint64_t slot;
};

/* Finds a variable that the file exports. Returns 0 or -ENOENT. */
int runtime_file_variable(const struct runtime_file *file, const char *name,
			  struct runtime_variable *variable);

/* Sets *address to where the variable is in a process, in which the file is mapped with this bias.
 * Returns 0; -EAGAIN if the dynamic linker has not written that yet; or an error of
 * memory_read(). */
int runtime_variable_address(const struct runtime_variable *variable, struct memory *memory,
			     uint64_t bias, uint64_t *address);

/* Finds a symbol of .symtab, which may be a local one. The first call reads the whole table, and
 * each searches it, so it is meant for files that were recognised as a runtime. Returns 0 or
 * -ENOENT. */
int runtime_file_local(const struct runtime_file *file, const char *name,
		       struct runtime_symbol *symbol);

/* Reads exactly `length` bytes of the file's contents at a virtual address. Returns 0, or -ENODATA
 * if the file does not have them there. */
int runtime_file_read(const struct runtime_file *file, uint64_t vaddr, void *buffer, size_t length);

#endif
