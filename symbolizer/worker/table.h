/* SPDX-License-Identifier: Apache-2.0 */
/* A hash from 128-bit keys to numbers, for everything that the worker numbers: open addressing,
 * never removes, grows up to a cap. */
#ifndef SYMBOLIZER_WORKER_TABLE_H
#define SYMBOLIZER_WORKER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

struct table_entry {
	uint64_t low, high;
	uint32_t value;
	uint32_t used;
};

struct table {
	struct table_entry *entries;
	size_t count, capacity; /* a power of two */
};

/* Forget all, and give the memory back; the table is empty then. */
void table_fini(struct table *table);

bool table_get(const struct table *table, XXH128_hash_t key, uint32_t *value);

/* 0 or -ENOMEM. The key must not be there. */
int table_put(struct table *table, XXH128_hash_t key, uint32_t value);

#endif
