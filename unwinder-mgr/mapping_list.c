/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see mapping_list.h. */
#include "unwinder-mgr/mapping_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/search.h"

enum {
	MAPPINGS_FIRST = 8 /* a small program with its C library has about this many */
};

struct mapping_list *mapping_list_new(void)
{
	struct mapping_list *list = calloc(1, sizeof(*list));

	if (list)
		list->users = 1;
	return list;
}

struct mapping_list *mapping_list_copy(const struct mapping_list *list)
{
	struct mapping_list *copy = mapping_list_new();

	if (!copy || !list || !list->count)
		return copy;
	if (ARRAY_RESERVE(copy->mappings, copy->capacity, list->count, list->count,
			  PROCESS_MAPPINGS_MAX) < 0) {
		free(copy);
		return NULL;
	}
	memcpy(copy->mappings, list->mappings, list->count * sizeof(list->mappings[0]));
	copy->count = list->count;
	for (size_t i = 0; i < copy->count; i++) {
		if (copy->mappings[i].module)
			module_get(copy->mappings[i].module);
	}
	return copy;
}

static void list_put_modules(struct mapping_list *list, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++) {
		if (list->mappings[i].module)
			module_put(list->mappings[i].module);
	}
}

void mapping_list_put(struct mapping_list *list, struct slabs *slabs)
{
	if (!list || --list->users)
		return;
	list_put_modules(list, 0, list->count);
	mapping_list_withdraw(list, slabs);
	free(list->mappings);
	free(list);
}

static bool list_reserve_one(struct mapping_list *list)
{
	return ARRAY_RESERVE(list->mappings, list->capacity, list->count + 1, MAPPINGS_FIRST,
			     PROCESS_MAPPINGS_MAX) == 0;
}

static void list_remove(struct mapping_list *list, size_t first, size_t count)
{
	list_put_modules(list, first, count);
	memmove(&list->mappings[first], &list->mappings[first + count],
		(list->count - first - count) * sizeof(list->mappings[0]));
	list->count -= count;
}

/* Splits the mapping at `at`, which [start, end) lies inside of, into what is before and after. */
static bool list_split(struct mapping_list *list, size_t at, uint64_t start, uint64_t end)
{
	if (!list_reserve_one(list))
		return false;
	struct mapping *before = &list->mappings[at], *after = before + 1;

	memmove(after, before, (list->count - at) * sizeof(*before));
	list->count++;
	if (before->module)
		module_get(before->module);
	before->end = start;
	after->file_offset += end - after->start;
	after->start = end;
	return true;
}

/* Cuts [start, end) out of the list. Returns false if there is no room for the split. */
static bool list_cut(struct mapping_list *list, uint64_t start, uint64_t end)
{
	const struct mapping *mappings = list->mappings;
	size_t first = SEARCH_LOWER_BOUND(i, list->count, mappings[i].end <= start);

	if (first == list->count || mappings[first].start >= end)
		return true;
	if (mappings[first].start < start && mappings[first].end > end)
		return list_split(list, first, start, end);
	if (mappings[first].start < start)
		list->mappings[first++].end = start;
	size_t last = first;
	while (last < list->count && mappings[last].end <= end)
		last++;
	list_remove(list, first, last - first);
	if (first < list->count && list->mappings[first].start < end) {
		struct mapping *cut = &list->mappings[first];

		cut->file_offset += end - cut->start;
		cut->start = end;
	}
	return true;
}

void mapping_list_insert(struct mapping_list *list, const struct mapping *mapping)
{
	if (!list_cut(list, mapping->start, mapping->end) || !list_reserve_one(list)) {
		if (mapping->module)
			module_put(mapping->module);
		return;
	}
	const size_t at =
	    SEARCH_LOWER_BOUND(i, list->count, list->mappings[i].start < mapping->start);

	memmove(&list->mappings[at + 1], &list->mappings[at],
		(list->count - at) * sizeof(*mapping));
	list->mappings[at] = *mapping;
	list->count++;
}

bool mapping_list_has(const struct mapping_list *list, const struct module *module)
{
	for (size_t i = 0; list && i < list->count; i++) {
		if (list->mappings[i].module == module)
			return true;
	}
	return false;
}

void mapping_list_replace(struct mapping_list *list, struct module *module, struct module *other)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->mappings[i].module != module)
			continue;
		module_get(other);
		list->mappings[i].module = other;
		module_put(module);
	}
}

int mapping_list_publish(struct mapping_list *list, struct slabs *slabs, struct share *share)
{
	const size_t bytes = list->count * sizeof(struct bh_mapping);

	if (list->block.bytes || !list->count)
		return 0;
	if (!share_allows(share, SHARED_SLABS, bytes, slabs_room(slabs)))
		return -EDQUOT;
	int r = slabs_alloc(slabs, bytes, &list->block);
	if (r < 0)
		return r;
	list->share = share_ref(share);
	share_take(share, SHARED_SLABS, list->block.bytes);
	struct bh_mapping *to = slabs_at(slabs, &list->block);
	for (size_t i = 0; i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];

		to[i] = (struct bh_mapping){.start = m->start, .end = m->end};
		if (m->module) {
			to[i].bias = m->start - m->file_offset;
			to[i].slot = m->module->slot;
			to[i].module_id = m->module->id;
		}
	}
	return 0;
}

void mapping_list_withdraw(struct mapping_list *list, struct slabs *slabs)
{
	slabs_retire(slabs, &list->block);
	share_give_back(list->share, SHARED_SLABS, list->block.bytes);
	share_unref(list->share);
	list->share = NULL;
	list->block = (struct slab_block){0};
}
