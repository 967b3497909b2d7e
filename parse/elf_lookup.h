/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up symbols of an ELF file by name.
 *
 * How this works. Exported symbols are found through the hash table that the dynamic linker uses,
 * .gnu.hash or .hash, with a few small reads however large the file is. Symbols that are not
 * exported are only in .symtab, which has no index and is read as a whole; a stripped file has
 * none. A symbol counts only if the file defines it: a file that uses a symbol of another file has
 * its name, too. The file may hold any bytes, so the number of reads is bounded.
 *
 * Example: libjvm.so defines gHotSpotVMStructs. Its hash selects a bucket, the bucket a chain of
 * one to three hashes, and the one that is equal a symbol, whose name is compared.
 */
#ifndef PARSE_ELF_LOOKUP_H
#define PARSE_ELF_LOOKUP_H

#include "parse/elf_image.h"
#include "parse/elf_symbols.h"

enum {
	/* Symbols in one chain of a hash table. Linkers size the table for short chains, so a
	 * longer one is forged. The rest of it is not searched. */
	ELF_LOOKUP_CHAIN_MAX = 256,
	/* Bytes of a symbol name, with its NUL. All names that are looked up are shorter. */
	ELF_LOOKUP_NAME_BYTES = 96,
	/* Bytes of .symtab and .strtab: 1.4 million symbols of 48 characters, which only the
	 * largest programs have. A larger table is not read, so no local symbol is found. */
	ELF_LOOKUP_SYMBOLS_BYTES_MAX = 32 << 20,
	ELF_LOOKUP_STRINGS_BYTES_MAX = 64 << 20,
};

/* The symbol tables of a file. They borrow `image`. */
struct elf_lookup {
	const struct elf_image *image;
	/* .dynsym with its strings, and the hash tables for lookups: one of the two, or both. */
	const struct elf_section *dynamic_symbols, *dynamic_strings, *gnu_hash, *hash;
	const struct elf_section *symbols, *strings; /* .symtab; NULL if stripped */
	struct elf_lookup_locals *locals;	     /* what elf_lookup_local() has read */
};

/* Finds the symbol tables of an image. A file need not have any. Returns 0 or -ENOMEM. */
int elf_lookup_init(struct elf_lookup *lookup, const struct elf_image *image);

void elf_lookup_fini(struct elf_lookup *lookup);

/* Finds a symbol that the file defines in .dynsym. Returns 0 or -ENOENT. */
int elf_lookup_exported(const struct elf_lookup *lookup, const char *name,
			struct elf_symbol *symbol);

/* Finds where the dynamic linker writes the address of a variable that a library defines and
 * exports (R_X86_64_GLOB_DAT). The library's own code reads it there, because the program that uses
 * the library may have taken over the variable (R_X86_64_COPY). Returns 0, or -ENOENT if there is
 * no such place. */
int elf_lookup_slot(const struct elf_lookup *lookup, const char *name, uint64_t *vaddr);

/* Finds a symbol that the file defines in .symtab, which may be a local one. The first call
 * reads the whole table, and each call searches it. Returns 0 or -ENOENT. */
int elf_lookup_local(const struct elf_lookup *lookup, const char *name, struct elf_symbol *symbol);

/* Returns whether elf_lookup_local() can find a symbol, because the names of .symtab contain this
 * one. They are searched in small pieces, and not kept: that is for files most of which lack it. */
bool elf_lookup_may_have_local(const struct elf_lookup *lookup, const char *name);

#endif
