/* SPDX-License-Identifier: Apache-2.0 */
/* A map from 128-bit keys (hashes of what is identified) to the ids that the worker assigned: open
 * addressing, at most three quarters full. Entries are never removed; the map is emptied as a whole
 * when all ids are reset. */
#ifndef SYMBOLIZER_WORKER_ID_MAP_H
#define SYMBOLIZER_WORKER_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/worker/id_key.h"

struct id_map_entry {
	uint64_t low, high; /* halves of the key */
	uint32_t value;
	uint32_t used; /* 0: the entry is free */
};

struct id_map {
	struct id_map_entry *entries;
	size_t count, capacity; /* the capacity is 0 or a power of two */
};

/* Removes all entries and frees the memory. The map is empty and usable afterwards. */
void id_map_fini(struct id_map *map);

/* Returns false, and `value` untouched, if the key is not in the map. */
bool id_map_get(const struct id_map *map, XXH128_hash_t key, uint32_t *value);

/* Adds a key that is not in the map yet. Returns 0 or -ENOMEM. */
int id_map_put(struct id_map *map, XXH128_hash_t key, uint32_t value);

#endif
