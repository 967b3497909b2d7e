/* SPDX-License-Identifier: Apache-2.0 */
/* Where functions begin, as far as a file says: its symbols, and the pointers to code that its
 * relocations make (R_X86_64_RELATIVE, x86-64 psABI 4.4). Pure. */
#ifndef PARSE_CODE_ENTRIES_H
#define PARSE_CODE_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

struct code_entries {
	uint64_t *vaddrs; /* ascending; one may be there twice */
	size_t count, capacity;
};

/* Of tables that have no more than `cap` bytes. 0 or -ENOMEM; a table that cannot be read is none.
 */
int code_entries_read(struct code_entries *entries, const struct elf_image *image, size_t cap);
void code_entries_fini(struct code_entries *entries);

/* The number of those before `vaddr`. */
size_t code_entries_before(const struct code_entries *entries, uint64_t vaddr);

#endif
