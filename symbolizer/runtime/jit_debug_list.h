/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images that describe the generated code of a process (parse/jit_image.h).
 *
 * They are in two places:
 * - In a list for debuggers ("JIT Compilation Interface" in the GDB manual): the variable
 *   __jit_debug_descriptor leads to the first entry, and that to the next one and to an image.
 * - Before the code: Wasmtime maps each module as an ELF image, whose first page has the header.
 *   The code follows as executable memory. It is in that list only if the program asks for it.
 *
 * How this works. The process may add and remove entries at any time. So the list is read again
 * when an address is in no image, and when an image is gone from which names came. Of an image that
 * is new, the headers are read, which say where its code is. Of one that was in the list before,
 * only the address of its code is read again. JIT compilers add entries at the front, so those come
 * first whose code is newest.
 *
 * An entry may be forged or change while it is read. A list that is circular, or leads to where no
 * memory is, ends there.
 */
#ifndef SYMBOLIZER_RUNTIME_JIT_DEBUG_LIST_H
#define SYMBOLIZER_RUNTIME_JIT_DEBUG_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/jit_image.h"
#include "symbolizer/runtime/runtime.h"

struct jit_debug_entry {
	uint64_t address;	    /* of the entry in the list; 0: the code follows the image */
	uint64_t image, image_size; /* where the image is in the process, in bytes */
	struct jit_image_code code; /* empty: it describes none */
	/* What jit_debug.c has copied of it, which owns that; NULL: nothing. */
	struct jit_debug_image *named;
};

struct jit_debug_list {
	struct jit_debug_entry *entries;
	size_t count, capacity;
};

/* Where an image is read from: the memory of the process, from an address on. Must outlive the
 * source. */
struct jit_debug_place {
	struct memory *memory;
	uint64_t address;
	/* The last error of memory_read() that says nothing about the image: the budget is used up,
	 * or the process is gone. Parsers may go on without what was not read. */
	int error;
};
struct elf_source jit_debug_source(struct jit_debug_place *place, uint64_t size);

/* Returns where the image is if the code is a part of it (jit_image.h), and otherwise 0. */
static inline uint64_t jit_debug_base(const struct jit_debug_entry *entry)
{
	return entry->address ? 0 : entry->image;
}

/* Finds all images: those before the areas of `code` (NULL: none), and those in the list to which
 * the descriptor at `descriptor` leads. They replace those in `list`. Entries that are still there
 * keep their `named`; for each of the others that has one, `drop` is called.
 * Returns how many are new; -EAGAIN: the process has not prepared the descriptor yet; -ENOTSUP: it
 * has another version; -ENOMEM; or an error of memory_read(), and then `list` has what was read
 * before that, and what it had. */
int jit_debug_list_read(struct jit_debug_list *list, struct memory *memory, uint64_t descriptor,
			const struct runtime_code_memory *code,
			void (*drop)(void *context, struct jit_debug_entry *entry), void *context);

/* Returns whether an entry is still there and describes the same code, with a few reads however
 * long the list is: its neighbour leads to it, or an area of code follows the image. If that cannot
 * be read, it is not. */
bool jit_debug_list_has(struct memory *memory, uint64_t descriptor,
			const struct runtime_code_memory *code,
			const struct jit_debug_entry *entry);

/* Returns the next entry after `after` (NULL: the first one) whose code may have an address, or
 * NULL: code of several images may be mixed. */
struct jit_debug_entry *jit_debug_list_find(const struct jit_debug_list *list, uint64_t address,
					    const struct jit_debug_entry *after);

#endif
