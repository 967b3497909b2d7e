/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a stack that makecontext(3) has made: coroutines of QEMU, for example.
 *
 * How this works. A function that is started there returns to code of the C library, but nothing
 * has called it from there. So the byte before that code, by which the caller of a function is
 * looked up, belongs to whatever comes before, and the rule of that is wrong. In glibc it is the
 * padding before __start_context, whose name is not exported. But makecontext() is exported, and
 * its machine code has the address. Where the description of a function starts at that address, the
 * table gets a row for the byte before it (unwind_table_builder.c).
 *
 * Example: makecontext() is at 0x3f510, and loads 0x519c0, where a function starts. The byte at
 * 0x519bf gets a rule of its own: there is no caller.
 *
 * Programs without a dynamic linker are left out. They have no exported symbols, and all others
 * would have to be searched. So is musl, which has no makecontext().
 */
#ifndef UNWINDER_MGR_CONTEXT_START_H
#define UNWINDER_MGR_CONTEXT_START_H

#include <stddef.h>

#include "parse/elf_image.h"

enum {
	CONTEXT_STARTS_MAX = 4, /* more of them would be forged */
};

/* Finds the addresses that makecontext() loads, if the file exports that, and sets *count. Not all
 * of them need be starts of stacks, or code. Returns 0 or -ENOMEM. */
int context_start_find(const struct elf_image *image, uint64_t starts[static CONTEXT_STARTS_MAX],
		       size_t *count);

#endif
