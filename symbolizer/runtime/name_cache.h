/* SPDX-License-Identifier: Apache-2.0 */
/* The names of code of one process, by its address and its identity. Two at the same place of the
 * cache replace each other, and are read again. */
#ifndef SYMBOLIZER_RUNTIME_NAME_CACHE_H
#define SYMBOLIZER_RUNTIME_NAME_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct name_cache;

/* Code as it was read while it had this identity. */
struct name_cache_entry {
	uint64_t address; /* 0: the entry is free */
	uint32_t identity;
	uint32_t first_line;
	size_t bytes;
	char *function; /* NULL: the code is no function */
	char *file;
};

/* Returns NULL if there is no memory. */
struct name_cache *name_cache_new(void);

/* Frees the cache, which may be NULL. */
void name_cache_free(struct name_cache *cache);

/* Drops everything that is cached. */
void name_cache_drop(struct name_cache *cache);

/* Returns the memory that name_cache_drop() would free, in bytes. */
size_t name_cache_bytes(const struct name_cache *cache);

/* Returns the entry, or NULL. It is valid until the next call of name_cache_keep(). */
const struct name_cache_entry *name_cache_find(const struct name_cache *cache, uint64_t address,
					       uint32_t identity);

/* Copies what was read into the cache. `function` may be NULL. Returns the entry, or NULL if there
 * is no memory. */
const struct name_cache_entry *name_cache_keep(struct name_cache *cache, uint64_t address,
					       uint32_t identity, const char *function,
					       const char *file, uint32_t first_line);

#endif
