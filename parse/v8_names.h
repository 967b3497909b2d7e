/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the names of V8's builtins from a file that need not have symbols.
 *
 * How this works. V8 has a table in which it looks up the names of builtins itself, such as
 * "ArrayMap": one entry for each, in the order of their ids, which begins with a pointer to the
 * name. The table has no symbol that `strip` keeps. But one of the names is known, and is in the
 * file once. Where a pointer to it is, the entries before and after it have pointers to names, too.
 * If these are as many as there are builtins (parse/v8_builtins.h), they are the table.
 *
 * Example (Debian's libnode.so.115, V8 11.3): the text "InterpreterEntryTrampoline" is at
 * 0x2f9d81e. A pointer to it is at 0x33f7f30. From 0x33f78a0 on, there is a pointer to a name every
 * 24 bytes, 2,182 times. The table of builtins has 2,182 entries as well, so the first one, of 768
 * bytes at 0xe43000, is "DeoptimizationEntry_Eager", and so on.
 *
 * Pointers of a library are written by the dynamic linker. The linker that has made the file mostly
 * wrote them into it as well. Otherwise they are in the list of relocations, which has an entry of
 * 24 bytes for each.
 *
 * Sources: BuiltinMetadata in src/builtins/builtins.cc of V8 11.3 to 14.6. In builds with symbols,
 * they have these names after "Builtins_" (src/snapshot/embedded/embedded-file-writer.cc). Pure:
 * bytes come through an elf_source, and may be forged or change at any moment.
 */
#ifndef PARSE_V8_NAMES_H
#define PARSE_V8_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

struct v8_names {
	struct v8_name {
		uint64_t vaddr; /* of the builtin */
		uint32_t bytes; /* of its code */
		uint32_t text;	/* an offset in `texts` */
	} * names;		/* in the order of addresses */
	unsigned int count;
	/* The names, each with "Builtins_" before it and a NUL after it. */
	char *texts;
	size_t texts_bytes;
};

/* Reads the names of all builtins. Returns 0; -ENOENT: the file has no builtins, or no names of
 * them; -ENOMEM; or the source's error. */
int v8_names_read(struct v8_names *names, const struct elf_image *image);
void v8_names_fini(struct v8_names *names);

#endif
