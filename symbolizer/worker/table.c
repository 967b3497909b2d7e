/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void table_fini(struct table *table)
{
	free(table->entries);
	*table = (struct table){0};
}

static struct table_entry *table_find(const struct table *table, XXH128_hash_t key)
{
	size_t at = key.low64 & (table->capacity - 1);

	while (table->entries[at].used &&
	       (table->entries[at].low != key.low64 || table->entries[at].high != key.high64))
		at = (at + 1) & (table->capacity - 1);
	return &table->entries[at];
}

bool table_get(const struct table *table, XXH128_hash_t key, uint32_t *value)
{
	if (!table->capacity)
		return false;
	const struct table_entry *entry = table_find(table, key);
	if (entry->used)
		*value = entry->value;
	return entry->used;
}

static int table_grow(struct table *table)
{
	struct table grown = {.capacity = table->capacity ? table->capacity * 2 : 1024,
			      .count = table->count};

	grown.entries = calloc(grown.capacity, sizeof(grown.entries[0]));
	if (!grown.entries)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++) {
		const struct table_entry *e = &table->entries[i];

		if (e->used)
			*table_find(&grown, (XXH128_hash_t){.low64 = e->low, .high64 = e->high}) =
			    *e;
	}
	free(table->entries);
	*table = grown;
	return 0;
}

int table_put(struct table *table, XXH128_hash_t key, uint32_t value)
{
	if (table->count * 4 >= table->capacity * 3) {
		int r = table_grow(table);

		if (r < 0)
			return r;
	}
	*table_find(table, key) =
	    (struct table_entry){.low = key.low64, .high = key.high64, .value = value, .used = 1};
	table->count++;
	return 0;
}
