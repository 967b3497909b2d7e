/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/id_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void id_map_fini(struct id_map *map)
{
	free(map->entries);
	*map = (struct id_map){0};
}

static struct id_map_entry *id_map_find(const struct id_map *map, XXH128_hash_t key)
{
	size_t at = key.low64 & (map->capacity - 1);

	while (map->entries[at].used &&
	       (map->entries[at].low != key.low64 || map->entries[at].high != key.high64))
		at = (at + 1) & (map->capacity - 1);
	return &map->entries[at];
}

bool id_map_get(const struct id_map *map, XXH128_hash_t key, uint32_t *value)
{
	if (!map->capacity)
		return false;
	const struct id_map_entry *entry = id_map_find(map, key);
	if (entry->used)
		*value = entry->value;
	return entry->used;
}

static int id_map_grow(struct id_map *map)
{
	struct id_map grown = {.capacity = map->capacity ? map->capacity * 2 : 1024,
			       .count = map->count};

	grown.entries = calloc(grown.capacity, sizeof(grown.entries[0]));
	if (!grown.entries)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		const struct id_map_entry *e = &map->entries[i];

		if (e->used)
			*id_map_find(&grown, (XXH128_hash_t){.low64 = e->low, .high64 = e->high}) =
			    *e;
	}
	free(map->entries);
	*map = grown;
	return 0;
}

int id_map_put(struct id_map *map, XXH128_hash_t key, uint32_t value)
{
	if (map->count * 4 >= map->capacity * 3) {
		int r = id_map_grow(map);

		if (r < 0)
			return r;
	}
	*id_map_find(map, key) =
	    (struct id_map_entry){.low = key.low64, .high = key.high64, .value = value, .used = 1};
	map->count++;
	return 0;
}
