/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see jit_debug_list.h. */
#include "symbolizer/runtime/jit_debug_list.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cursor.h"
#include "symbolizer/runtime/limits.h"

enum {
	DESCRIPTOR_BYTES = 24, /* struct jit_descriptor */
	ENTRY_BYTES = 32,      /* struct jit_code_entry */
	VERSION = 1,
};

static int read_source(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct jit_debug_place *place = context;
	const int r = memory_read(place->memory, place->address + offset, buffer, length);

	if (r < 0 && r != -EFAULT)
		place->error = r;
	return r;
}

struct elf_source jit_debug_source(struct jit_debug_place *place, uint64_t size)
{
	return (struct elf_source){.read = read_source, .context = place, .size = size};
}

/* Reads the address of the first entry from the descriptor. */
static int read_first(struct memory *memory, uint64_t descriptor, uint64_t *first)
{
	uint8_t bytes[DESCRIPTOR_BYTES];
	const int r = memory_read(memory, descriptor, bytes, sizeof(bytes));
	struct cursor c = cursor_init(bytes, sizeof(bytes));

	if (r < 0)
		return r;
	const uint32_t version = cursor_u32(&c);
	cursor_u32(&c); /* action_flag */
	cursor_u64(&c); /* relevant_entry */
	*first = cursor_u64(&c);
	return version == VERSION ? 0 : version ? -ENOTSUP : -EAGAIN;
}

/* Reads an entry, and the addresses of its neighbours. */
static int read_entry(struct memory *memory, uint64_t address, struct jit_debug_entry *entry,
		      uint64_t *next, uint64_t *previous)
{
	uint8_t bytes[ENTRY_BYTES];
	const int r = memory_read(memory, address, bytes, sizeof(bytes));
	struct cursor c = cursor_init(bytes, sizeof(bytes));

	if (r < 0)
		return r;
	*next = cursor_u64(&c);
	*previous = cursor_u64(&c);
	*entry = (struct jit_debug_entry){.address = address};
	entry->image = cursor_u64(&c);
	entry->image_size = cursor_u64(&c);
	return 0;
}

/* Finds where the code of a new entry is. Returns 0, or an error after which nothing more can be
 * read. */
static int find_code(struct memory *memory, struct jit_debug_entry *entry)
{
	struct jit_debug_place place = {.memory = memory, .address = entry->image};
	const struct elf_source source = jit_debug_source(&place, entry->image_size);
	const int r = jit_image_find_code(&source, jit_debug_base(entry), &entry->code);

	if (r < 0)
		entry->code = (struct jit_image_code){0};
	return r == -ENOMEM ? r : place.error;
}

/* Returns the entry of the last list that is the same, or NULL. Entries keep their order, so it is
 * expected at `*at` or not far from there. */
static struct jit_debug_entry *find_last(const struct jit_debug_list *last, size_t *at,
					 const struct jit_debug_entry *entry)
{
	for (size_t i = *at; i < last->count && i < *at + JIT_DEBUG_REMOVED_MAX; i++) {
		struct jit_debug_entry *found = &last->entries[i];

		if (found->address == entry->address && found->image == entry->image &&
		    found->image_size == entry->image_size) {
			*at = i + 1;
			return found;
		}
	}
	return NULL;
}

/* A list that is being made, in the place of the last one. */
struct reading {
	struct jit_debug_list *list;
	struct jit_debug_list last;
	size_t last_at; /* up to there the last list was passed */
	struct memory *memory;
	int added; /* entries with code that the last list did not have */
};

/* Returns whether an entry of the last list still describes the same code: entry and image may have
 * been freed, and allocated again for other code. One that described none may have been read while
 * it was written. */
static bool is_same_code(struct memory *memory, const struct jit_debug_entry *entry, int *error)
{
	uint64_t address = entry->code.address;

	if (!entry->code.end)
		return false;
	if (entry->code.address_at)
		*error = memory_read_u64(memory, entry->image + entry->code.address_at, &address);
	if (*error == -EFAULT)
		*error = 0;
	return address == entry->code.address;
}

/* Adds an entry. Takes over what the last list has of it. Returns 0, or an error after which
 * nothing more can be read. */
static int add(struct reading *r, struct jit_debug_entry entry)
{
	struct jit_debug_entry *last = find_last(&r->last, &r->last_at, &entry);
	int error = 0;
	const bool is_known = last && is_same_code(r->memory, last, &error);

	if (!is_known && !error)
		error = find_code(r->memory, &entry);
	if (!error)
		error = ARRAY_RESERVE(r->list->entries, r->list->capacity, r->list->count + 1, 8,
				      JIT_DEBUG_ENTRIES_MAX);
	if (error) {
		if (last)
			r->last_at = (size_t)(last - r->last.entries);
		return error;
	}
	if (is_known) {
		entry = *last;
		last->named = NULL;
	}
	r->list->entries[r->list->count++] = entry;
	r->added += !is_known && entry.code.end;
	return 0;
}

/* Adds the images that areas of code are a part of. */
static int add_mapped(struct reading *r, const struct runtime_code_memory *code)
{
	for (unsigned int i = 0; code && i < code->count; i++) {
		const uint64_t image = code->areas[i].start - MEMORY_PAGE_BYTES;
		uint8_t header[JIT_IMAGE_HEADER_BYTES];

		if (code->areas[i].label[0])
			continue;
		int error = memory_read(r->memory, image, header, sizeof(header));
		const uint64_t size = error ? 0 : jit_image_size(header);
		if (size)
			error =
			    add(r, (struct jit_debug_entry){.image = image, .image_size = size});
		if (error && error != -EFAULT)
			return error;
	}
	return 0;
}

/* Adds the entries of the list for debuggers, from one on. */
static int add_listed(struct reading *r, uint64_t address)
{
	while (address && r->list->count < JIT_DEBUG_ENTRIES_MAX) {
		struct jit_debug_entry entry;
		uint64_t next, previous;
		int error = read_entry(r->memory, address, &entry, &next, &previous);

		if (error == -EFAULT)
			return 0;
		if (!error)
			error = add(r, entry);
		if (error)
			return error;
		address = next;
	}
	return 0;
}

/* Moves what follows in the last list to the end of the list, which could not be read to its
 * end. */
static void keep_rest(struct reading *r)
{
	struct jit_debug_list *list = r->list;

	for (size_t at = r->last_at; at < r->last.count; at++) {
		if (ARRAY_RESERVE(list->entries, list->capacity, list->count + 1, 8,
				  JIT_DEBUG_ENTRIES_MAX) < 0)
			return;
		list->entries[list->count++] = r->last.entries[at];
		r->last.entries[at].named = NULL;
	}
}

int jit_debug_list_read(struct jit_debug_list *list, struct memory *memory, uint64_t descriptor,
			const struct runtime_code_memory *code,
			void (*drop)(void *context, struct jit_debug_entry *entry), void *context)
{
	struct reading r = {.list = list, .last = *list, .memory = memory};
	uint64_t first;
	int error = read_first(memory, descriptor, &first);

	if (error)
		return error;
	*list = (struct jit_debug_list){0};
	error = add_mapped(&r, code);
	if (!error)
		error = add_listed(&r, first);
	if (error)
		keep_rest(&r);
	for (size_t i = 0; i < r.last.count; i++) {
		if (r.last.entries[i].named)
			drop(context, &r.last.entries[i]);
	}
	free(r.last.entries);
	return error ? error : r.added;
}

/* Returns whether an image that has its code as a part is still before an area of code. */
static bool is_mapped(const struct runtime_code_memory *code, const struct jit_debug_entry *entry)
{
	for (unsigned int i = 0; code && i < code->count; i++) {
		if (code->areas[i].start - MEMORY_PAGE_BYTES == entry->image)
			return true;
	}
	return false;
}

bool jit_debug_list_has(struct memory *memory, uint64_t descriptor,
			const struct runtime_code_memory *code, const struct jit_debug_entry *entry)
{
	struct jit_debug_entry now;
	uint64_t next, previous, at = 0;

	if (!entry->address)
		return is_mapped(code, entry);
	int error = read_entry(memory, entry->address, &now, &next, &previous);

	if (!error && previous)
		error = memory_read_u64(memory, previous, &at);
	else if (!error)
		error = read_first(memory, descriptor, &at);
	return !error && at == entry->address && now.image == entry->image &&
	       now.image_size == entry->image_size && is_same_code(memory, entry, &error) && !error;
}

struct jit_debug_entry *jit_debug_list_find(const struct jit_debug_list *list, uint64_t address,
					    const struct jit_debug_entry *after)
{
	for (size_t i = after ? (size_t)(after - list->entries) + 1 : 0; i < list->count; i++) {
		struct jit_debug_entry *entry = &list->entries[i];

		if (address >= entry->code.start && address < entry->code.end)
			return entry;
	}
	return NULL;
}
