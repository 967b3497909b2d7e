/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of memory that the kernel side made for the names of new code (struct bh_memory_copy).
 *
 * How this works: a copy comes through the ring before the first sample of its code, so it is
 * needed within moments, and only if the code has been freed meanwhile. So the last
 * LIMIT_MEMORY_COPIES of all processes are kept, and each new one replaces the oldest.
 */
#ifndef SYMBOLIZER_WORKER_MEMORY_COPIES_H
#define SYMBOLIZER_WORKER_MEMORY_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "symbolizer/worker/limits.h"

struct memory_copies {
	unsigned int next; /* the entry that the next copy replaces */
	struct memory_copy {
		size_t bytes; /* of the record; 0: the entry is free */
		_Alignas(8) uint8_t record[BH_MEMORY_COPY_MAX];
	} entries[LIMIT_MEMORY_COPIES];
};

/* Returns whether a record of the ring is a copy of memory, and not a sample. */
bool memory_copy_is(const void *record, size_t length);

/* Keeps a record for which memory_copy_is() is true. */
void memory_copies_add(struct memory_copies *copies, const void *record, size_t length);

/* Returns the newest copy for the code of a managed frame of a process, which begins with these two
 * words (bpf/sample/new_code.h says which part of them identifies code), or NULL. It is valid until
 * the next memory_copies_add(). */
const struct memory_copy *memory_copies_find(const struct memory_copies *copies, uint32_t tgid,
					     const uint64_t *words);

#endif
