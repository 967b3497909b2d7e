/* SPDX-License-Identifier: Apache-2.0 */
/* The library of v8_library.S as a part of the program that includes this header (once): as it was
 * linked, and stripped. The segments of both are the same. */
#ifndef V8_LIBRARY_H
#define V8_LIBRARY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "parse/elf_lookup.h"

/* V8_LIBRARY and V8_LIBRARY_STRIPPED are their paths. */
__asm__(".pushsection .rodata\n"
	".balign 8\nv8_linked: .incbin \"" V8_LIBRARY "\"\nv8_linked_end:\n"
	".balign 8\nv8_stripped: .incbin \"" V8_LIBRARY_STRIPPED "\"\nv8_stripped_end:\n"
	".popsection\n");
extern const char v8_linked[], v8_linked_end[], v8_stripped[], v8_stripped_end[];

enum {
	V8_LIBRARY_BUILTINS = 1100,
	V8_LIBRARY_KNOWN = 11,	     /* InterpreterEntryTrampoline */
	V8_LIBRARY_TABLE_BYTES = 12, /* of an entry of the table of builtins */
	V8_LIBRARY_NAMES_BYTES = 24, /* of an entry of the table of names */
};

/* Opens one of them. */
static inline void v8_library_open(struct elf_image *image, struct elf_buffer *buffer)
{
	const struct elf_source source = elf_source_from_buffer(buffer);

	if (elf_image_init(image, &source) < 0)
		abort();
}

/* Returns the virtual address that the linker has given to a local symbol, and its size. */
static inline uint64_t v8_library_symbol(const char *name, uint64_t *size)
{
	struct elf_buffer buffer = {v8_linked, (size_t)(v8_linked_end - v8_linked)};
	struct elf_lookup lookup;
	struct elf_symbol symbol;
	struct elf_image image;

	v8_library_open(&image, &buffer);
	if (elf_lookup_init(&lookup, &image) < 0 || elf_lookup_local(&lookup, name, &symbol) < 0)
		abort();
	elf_lookup_fini(&lookup);
	elf_image_fini(&image);
	*size = symbol.size;
	return symbol.value;
}

/* Returns the offset in the file of a local symbol. */
static inline size_t v8_library_offset(const char *name)
{
	struct elf_buffer buffer = {v8_linked, (size_t)(v8_linked_end - v8_linked)};
	struct elf_image image;
	uint64_t offset, size;

	v8_library_open(&image, &buffer);
	if (!elf_image_vaddr_to_offset(&image, v8_library_symbol(name, &size), &offset))
		abort();
	elf_image_fini(&image);
	return (size_t)offset;
}

#endif
