/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/v8_names.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_lookup.h"
#include "parse/elf_window.h"
#include "parse/v8_builtins.h"

enum {
	POINTER_BYTES = 8,
	ENTRY_BYTES = 24, /* sizeof(BuiltinMetadata): a pointer, a kind, and 8 bytes of data */
	NAME_BYTES = 96,  /* with its NUL; the longest one has 66 characters */
	/* Places of the known name, and pointers to it, that are looked at. A file has one, and a
	 * library has another pointer in its relocations. */
	PLACES_MAX = 4,
	TEXTS_BYTES_FIRST = 64 << 10,
	TEXTS_BYTES_MAX = V8_BUILTINS_MAX * (NAME_BYTES + 16),
};

/* V8 exports its version, in every build. */
static const char version_symbol[] = "_ZN2v88internal7Version6major_E";
static const char known_name[] = "InterpreterEntryTrampoline";
static const char prefix[] = "Builtins_";
/* Words of an entry of the table of builtins: in V8 12.4 to 14.6, and in 11.3. */
static const unsigned int entry_words[] = {3, 8};

struct search {
	const struct elf_image *image;
	const struct v8_builtins_table *table;
	uint64_t places[PLACES_MAX]; /* of the known name */
	unsigned int place_count, pointer_count;
	uint64_t entries; /* where the table of names is */
};

/* Returns the length of the name at the start of the bytes, or 0 if there is none. */
static size_t name_length(const char *name, size_t bytes)
{
	const size_t length = strnlen(name, bytes);

	if (length == bytes || isdigit((unsigned char)name[0]))
		return 0;
	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return 0;
	}
	return length;
}

/* Reads the name to which the entry at `vaddr` points. Returns its length, 0: there is none, or an
 * error. */
static int read_name(const struct elf_image *image, uint64_t vaddr, char name[NAME_BYTES])
{
	const struct elf_source *source = &image->source;
	const struct elf_segment *segment = elf_image_find_segment(image, vaddr, POINTER_BYTES);
	uint64_t pointer;

	if (!segment)
		return 0;
	int r = source->read(source->context, segment->offset + (vaddr - segment->vaddr), &pointer,
			     sizeof(pointer));
	if (r < 0)
		return r;
	segment = elf_image_find_segment(image, pointer, 1);
	if (!segment)
		return 0;
	const uint64_t left = segment->file_size - (pointer - segment->vaddr);
	const size_t bytes = left < NAME_BYTES ? (size_t)left : NAME_BYTES;
	r = source->read(source->context, segment->offset + (pointer - segment->vaddr), name,
			 bytes);
	return r < 0 ? r : (int)name_length(name, bytes);
}

/* Sets `entries` to the start of the table with the entry at `vaddr`, if there are as many entries
 * around it as there are builtins. Returns 0, -ENOENT or an error. */
static int take_entry(struct search *search, uint64_t vaddr)
{
	uint64_t first = vaddr, end = vaddr + ENTRY_BYTES;
	const uint64_t bytes = (uint64_t)search->table->count * ENTRY_BYTES;
	char name[NAME_BYTES];
	int r = 1;

	while (r > 0 && end - first <= bytes && first >= ENTRY_BYTES) {
		r = read_name(search->image, first - ENTRY_BYTES, name);
		if (r > 0)
			first -= ENTRY_BYTES;
	}
	for (r = r < 0 ? r : 1; r > 0 && end - first <= bytes;) {
		r = read_name(search->image, end, name);
		if (r > 0)
			end += ENTRY_BYTES;
	}
	search->entries = first;
	return r < 0 ? r : end - first == bytes ? 0 : -ENOENT;
}

/* Looks for the known name, and collects its places. */
static int look_for_name(void *context, uint64_t vaddr, struct cursor c)
{
	struct search *search = context;
	const uint8_t *const bytes = c.at, *found;

	while ((found = memmem(c.at, cursor_left(&c), known_name, sizeof(known_name))) &&
	       search->place_count < PLACES_MAX) {
		search->places[search->place_count++] = vaddr + (uint64_t)(found - bytes);
		cursor_skip(&c, (uint64_t)(found - c.at) + sizeof(known_name));
	}
	return -ENOENT;
}

/* Looks for a pointer to the known name in the table of names. */
static int look_for_pointer(void *context, uint64_t vaddr, struct cursor c)
{
	struct search *search = context;
	const uint64_t unaligned = -vaddr & (POINTER_BYTES - 1);
	int r = -ENOENT;

	cursor_skip(&c, unaligned);
	for (vaddr += unaligned; cursor_left(&c) >= POINTER_BYTES && r == -ENOENT;
	     vaddr += POINTER_BYTES) {
		const uint64_t pointer = cursor_u64(&c);

		for (unsigned int i = 0; i < search->place_count; i++) {
			if (pointer == search->places[i] && search->pointer_count++ < PLACES_MAX)
				r = take_entry(search, vaddr);
		}
	}
	return r;
}

/* Finds the table of names. Some linkers place read-only data next to code. */
static int find_entries(struct search *search)
{
	const struct elf_image *image = search->image;
	uint64_t left = V8_SEARCH_BYTES_MAX;
	int r = elf_window_segments(image, false, &left, sizeof(known_name), look_for_name, search);

	if (r == -ENOENT && !search->place_count)
		r = elf_window_segments(image, true, &left, sizeof(known_name), look_for_name,
					search);
	if (r != -ENOENT || !search->place_count)
		return r;
	left = V8_SEARCH_BYTES_MAX;
	r = elf_window_segments(image, false, &left, POINTER_BYTES, look_for_pointer, search);
	return r == -ENOENT ? elf_window_segments(image, true, &left, POINTER_BYTES,
						  look_for_pointer, search)
			    : r;
}

/* Adds a name, with the prefix, to the texts. */
static int add_text(struct v8_names *names, size_t *capacity, const char *name, size_t length)
{
	const size_t prefix_length = sizeof(prefix) - 1, before = names->texts_bytes;
	const size_t after = before + prefix_length + length + 1;
	const int r =
	    ARRAY_RESERVE(names->texts, *capacity, after, TEXTS_BYTES_FIRST, TEXTS_BYTES_MAX);

	if (r < 0)
		return r == -E2BIG ? -ENOENT : r;
	memcpy(names->texts + before, prefix, prefix_length);
	memcpy(names->texts + before + prefix_length, name, length + 1);
	names->texts_bytes = after;
	return 0;
}

/* Reads the names of the builtins of a block that starts at `start`. */
static int read_names(struct v8_names *names, const struct search *search, uint64_t start)
{
	const struct v8_builtins_table *table = search->table;
	size_t capacity = 0;
	char name[NAME_BYTES];

	names->names = calloc(table->count, sizeof(names->names[0]));
	if (!names->names)
		return -ENOMEM;
	for (; names->count < table->count; names->count++) {
		const struct v8_builtin *builtin = &table->builtins[names->count];
		int r = read_name(search->image,
				  search->entries + (uint64_t)names->count * ENTRY_BYTES, name);

		if (r <= 0)
			return r < 0 ? r : -ENOENT;
		names->names[names->count] = (struct v8_name){.vaddr = start + builtin->offset,
							      .bytes = builtin->bytes,
							      .text = (uint32_t)names->texts_bytes};
		r = add_text(names, &capacity, name, (size_t)r);
		if (r < 0)
			return r;
	}
	ARRAY_FIT(names->texts, capacity, names->texts_bytes);
	return 0;
}

/* Returns 0 if the file may contain V8, -ENOENT if it does not, or -ENOMEM. */
static int find_version(const struct elf_image *image)
{
	struct elf_lookup lookup;
	struct elf_symbol symbol;
	int r = elf_lookup_init(&lookup, image);

	if (r < 0)
		return r;
	r = elf_lookup_exported(&lookup, version_symbol, &symbol);
	elf_lookup_fini(&lookup);
	return r;
}

int v8_names_read(struct v8_names *names, const struct elf_image *image)
{
	uint64_t start = 0;
	int r = find_version(image);

	*names = (struct v8_names){0};
	if (r < 0)
		return r;
	_cleanup_free_ struct v8_builtins_table *table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	struct search search = {.image = image, .table = table};
	r = -ENOENT;
	for (size_t i = 0; i < sizeof(entry_words) / sizeof(entry_words[0]) && r == -ENOENT; i++) {
		table->entry_words = entry_words[i];
		r = v8_builtins_find_table(table, image, &start);
	}
	if (r == 0)
		r = find_entries(&search);
	if (r == 0)
		r = read_names(names, &search, start);
	if (r < 0)
		v8_names_fini(names);
	return r;
}

void v8_names_fini(struct v8_names *names)
{
	free(names->names);
	free(names->texts);
	*names = (struct v8_names){0};
}
