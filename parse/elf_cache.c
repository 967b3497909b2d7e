/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/elf_cache.h"

#include <errno.h>
#include <string.h>

/* Puts a block into its place. Where the file ends inside of it is found by halving, since a source
 * reads all that is asked for, or nothing. */
static int block_load(struct elf_cache *cache, uint64_t block, unsigned int place)
{
	const struct elf_source *source = &cache->source;
	const uint64_t start = block * ELF_CACHE_BLOCK_BYTES;
	uint8_t *bytes = cache->bytes[place];
	uint32_t filled = 0;

	cache->places[place].file = 0;
	for (uint32_t step = ELF_CACHE_BLOCK_BYTES; step > 0; step /= 2) {
		if (filled + step > ELF_CACHE_BLOCK_BYTES)
			continue;
		const int r = source->read(source->context, start + filled, bytes + filled, step);

		if (r == 0)
			filled += step;
		else if (r != -ENODATA)
			return r;
	}
	cache->places[place].file = cache->file;
	cache->places[place].block = block;
	cache->places[place].filled = filled;
	return 0;
}

static int cache_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct elf_cache *cache = context;
	uint8_t *to = buffer;

	if (length >= ELF_CACHE_BLOCK_BYTES || offset > UINT64_MAX - length)
		return cache->source.read(cache->source.context, offset, buffer, length);
	while (length > 0) {
		const uint64_t block = offset / ELF_CACHE_BLOCK_BYTES;
		const unsigned int place = (unsigned int)((block + cache->file) % ELF_CACHE_BLOCKS);
		const uint32_t inside = (uint32_t)(offset % ELF_CACHE_BLOCK_BYTES);
		size_t part = ELF_CACHE_BLOCK_BYTES - inside;

		if (part > length)
			part = length;
		if (cache->places[place].file != cache->file ||
		    cache->places[place].block != block) {
			const int r = block_load(cache, block, place);

			if (r < 0)
				return r;
		}
		if (inside + part > cache->places[place].filled)
			return -ENODATA;
		memcpy(to, cache->bytes[place] + inside, part);
		to += part;
		offset += part;
		length -= part;
	}
	return 0;
}

struct elf_source elf_cache_source(struct elf_cache *cache, const struct elf_source *source,
				   uint64_t *file)
{
	if (!*file)
		*file = ++cache->files;
	cache->source = *source;
	cache->file = *file;
	return (struct elf_source){.read = cache_read, .context = cache, .size = source->size};
}
