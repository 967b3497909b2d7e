/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see go_names.h. */
#include "parse/go_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_window.h"

enum {
	CHUNK_BYTES = 64 << 10,
	/* Kubernetes' programs have 5 MB of names and 100,000 functions, with 10 MB of
	 * descriptions. The whole search takes 5 ms there, and some 50 ms in a file that is forged
	 * for it. */
	NAMES_BYTES_MAX = 16 << 20,
	FUNCTIONS_MAX = 1 << 19,
	FUNCTIONS_BYTES_MAX = 64 << 20,
	NAME_AT = 4, /* of struct go_function, after its start */
};

struct search {
	const struct go_module *module;
	const struct elf_source *source;
	const char *const *names;
	unsigned int count;
	uint32_t at[GO_NAMES_MAX]; /* where the names are */
	bool found[GO_NAMES_MAX];
};

static void cleanup_window(struct elf_window *window)
{
	elf_window_fini(window);
}

/* Looks for a name between two NULs. The byte before `bytes` is a NUL if `starts`. */
static const uint8_t *name_find(const uint8_t *bytes, size_t length, bool starts, const char *name)
{
	const size_t size = strlen(name) + 1;
	const uint8_t *end = bytes + length, *at = bytes;

	while ((at = memmem(at, (size_t)(end - at), name, size))) {
		if (at == bytes ? starts : !at[-1])
			return at;
		at++;
	}
	return NULL;
}

/* Searches all names. Chunks overlap by more than the longest name. */
static int search_names(struct search *search)
{
	const struct go_part *part = &search->module->names;
	_cleanup_free_ uint8_t *bytes = malloc(CHUNK_BYTES);
	uint64_t at = 0;

	if (!bytes)
		return -ENOMEM;
	if (part->size > NAMES_BYTES_MAX)
		return -ENOENT;
	while (at < part->size) {
		const uint64_t left = part->size - at;
		const size_t length = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
		const int r =
		    search->source->read(search->source->context, part->offset + at, bytes, length);

		if (r < 0)
			return r;
		for (unsigned int i = 0; i < search->count; i++) {
			const uint8_t *found =
			    search->found[i] ? NULL
					     : name_find(bytes, length, at == 0, search->names[i]);

			if (!found)
				continue;
			search->found[i] = true;
			search->at[i] = (uint32_t)(at + (uint64_t)(found - bytes));
		}
		at += length < CHUNK_BYTES ? length : CHUNK_BYTES - 2 * GO_NAMES_LENGTH_MAX;
	}
	for (unsigned int i = 0; i < search->count; i++) {
		if (!search->found[i])
			return -ENOENT;
	}
	return 0;
}

/* Takes the function with this name, if it is one of those that are searched. Returns whether it
 * is. */
static bool function_take(const struct search *search, uint32_t name, uint32_t start, uint32_t end,
			  struct go_place *places)
{
	bool taken = false;

	for (unsigned int i = 0; i < search->count; i++) {
		if (search->at[i] != name || places[i].size)
			continue;
		places[i] = (struct go_place){search->module->text_vaddr + start, end - start};
		taken = true;
	}
	return taken;
}

/* Finds the functions that have the names. The linker writes the descriptions in the order of the
 * functions. Another order is refused: each function could cost a read of its own. */
static int search_functions(const struct search *search, struct go_place *places)
{
	const struct go_part *part = &search->module->functions;
	_cleanup_(cleanup_window) struct elf_window entries, descriptions;
	uint32_t last_description = 0;
	unsigned int taken = 0;
	struct cursor c;

	elf_window_init(&entries, search->source, part->offset, part->size);
	elf_window_init(&descriptions, search->source, part->offset, part->size);
	for (uint32_t i = 0; i < search->module->function_count && i < FUNCTIONS_MAX; i++) {
		int r = elf_window_get(&entries, (uint64_t)i * GO_ENTRY_BYTES,
				       GO_ENTRY_BYTES + sizeof(uint32_t), &c);
		if (r)
			return r == -ENODATA ? -ENOENT : r;
		const uint32_t start = cursor_u32(&c);
		const uint32_t description = cursor_u32(&c);
		const uint32_t end = cursor_u32(&c);

		if (start >= end || description <= last_description ||
		    description > FUNCTIONS_BYTES_MAX)
			return -ENOENT;
		last_description = description;
		r = elf_window_get(&descriptions, (uint64_t)description + NAME_AT, sizeof(uint32_t),
				   &c);
		if (r)
			return r == -ENODATA ? -ENOENT : r;
		taken += function_take(search, cursor_u32(&c), start, end, places);
		if (taken == search->count)
			return 0;
	}
	return -ENOENT;
}

/* Finds the names, which is the first part of a search. */
static int search_begin(struct search *search, const struct go_module *module,
			const struct elf_source *source, const char *const *names,
			unsigned int count)
{
	if (count > GO_NAMES_MAX)
		return -EINVAL;
	*search =
	    (struct search){.module = module, .source = source, .names = names, .count = count};
	return search_names(search);
}

int go_names_contain(const struct go_module *module, const struct elf_source *source,
		     const char *const *names, unsigned int count)
{
	struct search search;

	return search_begin(&search, module, source, names, count);
}

int go_names_find(const struct go_module *module, const struct elf_source *source,
		  const char *const *names, unsigned int count, struct go_place *places)
{
	struct search search;
	const int r = search_begin(&search, module, source, names, count);

	if (r < 0)
		return r;
	memset(places, 0, count * sizeof(*places));
	return search_functions(&search, places);
}
