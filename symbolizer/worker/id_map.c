/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/id_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void id_map_fini(struct id_map *table)
{
	free(table->entries);
	*table = (struct id_map){0};
}

static struct id_map_entry *id_map_find(const struct id_map *table, XXH128_hash_t key)
{
	size_t at = key.low64 & (table->capacity - 1);

	while (table->entries[at].used &&
	       (table->entries[at].low != key.low64 || table->entries[at].high != key.high64))
		at = (at + 1) & (table->capacity - 1);
	return &table->entries[at];
}

bool id_map_get(const struct id_map *table, XXH128_hash_t key, uint32_t *value)
{
	if (!table->capacity)
		return false;
	const struct id_map_entry *entry = id_map_find(table, key);
	if (entry->used)
		*value = entry->value;
	return entry->used;
}

static int id_map_grow(struct id_map *table)
{
	struct id_map grown = {.capacity = table->capacity ? table->capacity * 2 : 1024,
			       .count = table->count};

	grown.entries = calloc(grown.capacity, sizeof(grown.entries[0]));
	if (!grown.entries)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++) {
		const struct id_map_entry *e = &table->entries[i];

		if (e->used)
			*id_map_find(&grown, (XXH128_hash_t){.low64 = e->low, .high64 = e->high}) =
			    *e;
	}
	free(table->entries);
	*table = grown;
	return 0;
}

int id_map_put(struct id_map *table, XXH128_hash_t key, uint32_t value)
{
	if (table->count * 4 >= table->capacity * 3) {
		int r = id_map_grow(table);

		if (r < 0)
			return r;
	}
	*id_map_find(table, key) =
	    (struct id_map_entry){.low = key.low64, .high = key.high64, .value = value, .used = 1};
	table->count++;
	return 0;
}
