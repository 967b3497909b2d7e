/* SPDX-License-Identifier: Apache-2.0 */
/* Collects where functions start, as far as a file says: in its symbols, and in relocations that
 * make pointers to code. Pure. */
#ifndef PARSE_CODE_ENTRIES_H
#define PARSE_CODE_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

struct code_entries {
	uint64_t *vaddrs; /* ascending; may have duplicates */
	size_t count, capacity;
};

/* Reads the tables, which may have `cap` bytes together. One that is larger than what is left of
 * them is left out, and nothing more is read after one that is damaged. Returns 0 or -ENOMEM. */
int code_entries_read(struct code_entries *entries, const struct elf_image *image, size_t cap);
void code_entries_fini(struct code_entries *entries);

/* Returns the number of entries before `vaddr`: the index of the first one at or after it. */
size_t code_entries_before(const struct code_entries *entries, uint64_t vaddr);

#endif
