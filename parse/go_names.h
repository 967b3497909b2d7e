/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions of a Go program by their names.
 *
 * How this works. Programs that were stripped have no symbols, but the table of functions has all
 * names (go_module.h). It is sorted by address, and its names are one after the other in a part of
 * their own. So that part is searched for the names first, which is one pass over some megabytes.
 * Then the table is read up to the functions that refer to what was found. A program without one of
 * the functions costs only the first pass.
 *
 * Example: "runtime.goexit" is found at 0x1c40 of the names. The function 1,807 of the table has
 * the name 0x1c40 and the start 0x47ff00, and the next one starts at 0x47ff20.
 *
 * Pure: bytes come through an elf_source, and may be forged or change at any moment.
 */
#ifndef PARSE_GO_NAMES_H
#define PARSE_GO_NAMES_H

#include <stdint.h>

#include "parse/go_module.h"

enum {
	GO_NAMES_MAX = 6,	   /* that are searched at once */
	GO_NAMES_LENGTH_MAX = 128, /* of a name */
};

/* Where a function is; virtual addresses. */
struct go_place {
	uint64_t vaddr, size;
};

/* Finds the `count` functions with these names. Returns 0; -ENOENT if the program lacks one of
 * them, has more names or functions than are searched, or is forged; -ENOMEM; or the source's
 * error. */
int go_names_find(const struct go_module *module, const struct elf_source *source,
		  const char *const *names, unsigned int count, struct go_place *places);

/* Returns 0 if the program has all these names, be it only of inlined functions; otherwise an error
 * of go_names_find(). The table (go_module_find_table) is enough for it. */
int go_names_contain(const struct go_module *module, const struct elf_source *source,
		     const char *const *names, unsigned int count);

#endif
