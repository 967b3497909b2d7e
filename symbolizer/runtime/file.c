/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/elf_symbols.h"
#include "symbolizer/runtime/limits.h"

static int file_source_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	return file_read_exactly((int)(intptr_t)context, offset, buffer, length);
}

/* Returns the string table that a symbol table refers to (sh_link), or NULL. */
static const struct elf_section *linked(const struct elf_image *image,
					const struct elf_section *section)
{
	return section && section->link < image->section_count ? &image->sections[section->link]
							       : NULL;
}

int runtime_file_init(struct runtime_file *file, int fd, const char *path)
{
	struct stat st;

	*file = (struct runtime_file){.path = path};
	if (fstat(fd, &st) < 0)
		return -errno;
	const struct elf_source source = {.read = file_source_read,
					  .context = (void *)(intptr_t)fd,
					  .size = (uint64_t)st.st_size};
	int r = elf_image_init(&file->image, &source);
	if (r < 0)
		return r;
	file->dynamic_symbols = elf_image_find_section(&file->image, ".dynsym");
	file->dynamic_strings = linked(&file->image, file->dynamic_symbols);
	file->gnu_hash = elf_image_find_section(&file->image, ".gnu.hash");
	file->hash = elf_image_find_section(&file->image, ".hash");
	file->symbols = elf_image_find_section(&file->image, ".symtab");
	file->strings = linked(&file->image, file->symbols);
	return 0;
}

void runtime_file_fini(struct runtime_file *file)
{
	elf_image_fini(&file->image);
}

static int section_read(const struct runtime_file *file, const struct elf_section *section,
			uint64_t at, void *buffer, size_t length)
{
	const struct elf_source *source = &file->image.source;

	if (at > section->size || length > section->size - at)
		return -ENODATA;
	return source->read(source->context, section->offset + at, buffer, length);
}

static bool name_is(const struct runtime_file *file, const struct elf_section *strings, uint64_t at,
		    const char *name)
{
	char text[FILE_SYMBOL_NAME_BYTES];
	const size_t length = strlen(name) + 1;

	return length <= sizeof(text) && section_read(file, strings, at, text, length) == 0 &&
	       !memcmp(text, name, length);
}

/* Computes the hash of .gnu.hash, which is Bernstein's: h * 33 + c from 5381 on, as in binutils and
 * glibc. */
static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static bool symbol_at(const struct runtime_file *file, uint32_t index, const char *name,
		      struct runtime_symbol *symbol)
{
	uint8_t bytes[ELF_SYMBOL_BYTES];
	struct elf_symbol found;

	if (section_read(file, file->dynamic_symbols, (uint64_t)index * ELF_SYMBOL_BYTES, bytes,
			 sizeof(bytes)) < 0)
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	if (!elf_symbol_read(&c, &found) || found.section == SHN_UNDEF ||
	    !name_is(file, file->dynamic_strings, found.name, name))
		return false;
	*symbol = (struct runtime_symbol){.vaddr = found.value, .size = found.size};
	return true;
}

/*
 * Looks a symbol up in .gnu.hash (binutils and glibc; there is no other specification). The table
 * consists of
 *	- a header: bucket count, index of the first symbol, words of the Bloom filter, shift;
 *	- the Bloom filter, in words of 8 bytes, which is not needed here;
 *	- one index per bucket: the first symbol of its chain, 0 if the bucket is empty;
 *	- one hash per symbol, from the first one on. Its lowest bit is set at the end of a chain.
 */
static int find_by_gnu_hash(const struct runtime_file *file, const char *name,
			    struct runtime_symbol *symbol)
{
	uint32_t header[4], bucket, hash;

	if (section_read(file, file->gnu_hash, 0, header, sizeof(header)) < 0 || !header[0])
		return -ENOENT;
	const uint32_t wanted = gnu_hash(name);
	const uint64_t buckets = sizeof(header) + (uint64_t)header[2] * 8;
	if (section_read(file, file->gnu_hash, buckets + (uint64_t)(wanted % header[0]) * 4,
			 &bucket, sizeof(bucket)) < 0 ||
	    bucket < header[1])
		return -ENOENT;
	const uint64_t chains = buckets + (uint64_t)header[0] * 4;
	for (uint32_t i = 0; i < FILE_HASH_CHAIN_MAX; i++) {
		const uint64_t at = chains + (uint64_t)(bucket - header[1] + i) * 4;

		if (section_read(file, file->gnu_hash, at, &hash, sizeof(hash)) < 0)
			break;
		if ((hash | 1) == (wanted | 1) && symbol_at(file, bucket + i, name, symbol))
			return 0;
		if (hash & 1)
			break;
	}
	return -ENOENT;
}

/* Computes the hash of .hash (System V gABI, "Hash Table"). */
static uint32_t sysv_hash(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (uint8_t)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

/*
 * Looks a symbol up in .hash: bucket count, symbol count; one index per bucket (the first symbol of
 * its chain, 0 if it is empty); one index per symbol (the next one of its chain). A file has only
 * this table if the linker is old or was asked for it, as for Temurin's JDK 11.
 */
static int find_by_hash(const struct runtime_file *file, const char *name,
			struct runtime_symbol *symbol)
{
	uint32_t header[2], index;

	if (section_read(file, file->hash, 0, header, sizeof(header)) < 0 || !header[0])
		return -ENOENT;
	uint64_t at = sizeof(header) + (uint64_t)(sysv_hash(name) % header[0]) * sizeof(index);
	for (uint32_t i = 0; i < FILE_HASH_CHAIN_MAX; i++) {
		if (section_read(file, file->hash, at, &index, sizeof(index)) < 0 || !index)
			break;
		if (symbol_at(file, index, name, symbol))
			return 0;
		at = sizeof(header) + ((uint64_t)header[0] + index) * sizeof(index);
	}
	return -ENOENT;
}

int runtime_file_exported(const struct runtime_file *file, const char *name,
			  struct runtime_symbol *symbol)
{
	if (!file->dynamic_symbols || !file->dynamic_strings)
		return -ENOENT;
	if (file->gnu_hash)
		return find_by_gnu_hash(file, name, symbol);
	return file->hash ? find_by_hash(file, name, symbol) : -ENOENT;
}

int runtime_file_local(const struct runtime_file *file, const char *name,
		       struct runtime_symbol *symbol)
{
	_cleanup_free_ uint8_t *table = NULL;
	_cleanup_free_ uint8_t *strings = NULL;
	size_t table_bytes, string_bytes;
	struct elf_symbol found;
	const size_t length = strlen(name) + 1;

	if (!file->symbols || !file->strings ||
	    elf_image_read_section(&file->image, file->symbols, FILE_SYMBOLS_BYTES_MAX, &table,
				   &table_bytes) < 0 ||
	    elf_image_read_section(&file->image, file->strings, FILE_STRINGS_BYTES_MAX, &strings,
				   &string_bytes) < 0)
		return -ENOENT;
	struct cursor c = cursor_init(table, table_bytes);
	while (elf_symbol_read(&c, &found)) {
		if (found.section == SHN_UNDEF || found.name > string_bytes ||
		    length > string_bytes - found.name ||
		    memcmp(strings + found.name, name, length) != 0)
			continue;
		*symbol = (struct runtime_symbol){.vaddr = found.value, .size = found.size};
		return 0;
	}
	return -ENOENT;
}

int runtime_file_read(const struct runtime_file *file, uint64_t vaddr, void *buffer, size_t length)
{
	const struct elf_source *source = &file->image.source;
	uint64_t offset;

	if (!elf_image_vaddr_to_offset(&file->image, vaddr, &offset))
		return -ENODATA;
	return source->read(source->context, offset, buffer, length);
}
