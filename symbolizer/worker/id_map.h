/* SPDX-License-Identifier: Apache-2.0 */
/* A hash from 128-bit keys to numbers, for everything that the worker numbers: open addressing,
 * never removes, grows up to a cap. */
#ifndef SYMBOLIZER_WORKER_ID_MAP_H
#define SYMBOLIZER_WORKER_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

struct id_map_entry {
	uint64_t low, high;
	uint32_t value;
	uint32_t used;
};

struct id_map {
	struct id_map_entry *entries;
	size_t count, capacity; /* a power of two */
};

/* Forget all, and give the memory back; the table is empty then. */
void id_map_fini(struct id_map *table);

bool id_map_get(const struct id_map *table, XXH128_hash_t key, uint32_t *value);

/* 0 or -ENOMEM. The key must not be there. */
int id_map_put(struct id_map *table, XXH128_hash_t key, uint32_t value);

#endif
