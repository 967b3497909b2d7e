/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/name_cache.h"

#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/limits.h"

struct name_cache {
	struct name_cache_entry entries[NAME_CACHE_ENTRIES];
	size_t bytes;
};

struct name_cache *name_cache_new(void)
{
	return calloc(1, sizeof(struct name_cache));
}

/* Returns the place of code, which has one only. */
static size_t place_of(uint64_t address, uint32_t identity)
{
	return (address >> 3 ^ identity) % NAME_CACHE_ENTRIES;
}

static void entry_clear(struct name_cache *cache, struct name_cache_entry *entry)
{
	cache->bytes -= entry->bytes;
	free(entry->function);
	free(entry->file);
	*entry = (struct name_cache_entry){0};
}

void name_cache_drop(struct name_cache *cache)
{
	for (int i = 0; i < NAME_CACHE_ENTRIES; i++)
		entry_clear(cache, &cache->entries[i]);
}

void name_cache_free(struct name_cache *cache)
{
	if (cache)
		name_cache_drop(cache);
	free(cache);
}

size_t name_cache_bytes(const struct name_cache *cache)
{
	return cache->bytes;
}

const struct name_cache_entry *name_cache_find(const struct name_cache *cache, uint64_t address,
					       uint32_t identity)
{
	const struct name_cache_entry *entry = &cache->entries[place_of(address, identity)];

	return address && entry->address == address && entry->identity == identity ? entry : NULL;
}

const struct name_cache_entry *name_cache_keep(struct name_cache *cache, uint64_t address,
					       uint32_t identity, const char *function,
					       const char *file, uint32_t first_line)
{
	struct name_cache_entry *entry = &cache->entries[place_of(address, identity)];

	entry_clear(cache, entry);
	entry->file = strdup(file);
	entry->function = function ? strdup(function) : NULL;
	entry->bytes = strlen(file) + 1 + (function ? strlen(function) + 1 : 0);
	cache->bytes += entry->bytes;
	if (!entry->file || (function && !entry->function)) {
		entry_clear(cache, entry);
		return NULL;
	}
	entry->address = address;
	entry->identity = identity;
	entry->first_line = first_line;
	return entry;
}
