/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see mapping_list.h. */
#include "unwinder-mgr/mapping_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum {
	MAPPINGS_FIRST = 8, /* a small program with its C library has about this many */
	/* Mappings that are added before the list is merged. One that is added costs as much as
	 * copying these, plus a part of the list: 64 is about the square root of the longest. */
	RECENT_MAX = 64,
	/* A mapping that is added may split another one. */
	RECENT_ROOM = RECENT_MAX + 2,
};

struct mapping_list *mapping_list_new(void)
{
	struct mapping_list *list = calloc(1, sizeof(*list));

	if (list)
		list->users = 1;
	return list;
}

struct mapping_list *mapping_list_copy(struct mapping_list *list)
{
	struct mapping_list *copy = mapping_list_new();

	mapping_list_merge(list);
	if (!copy || !list || !list->count)
		return copy;
	if (ARRAY_RESERVE(copy->mappings, copy->capacity, list->count, list->count,
			  PROCESS_MAPPINGS_MAX) < 0) {
		free(copy);
		return NULL;
	}
	memcpy(copy->mappings, list->mappings, list->count * sizeof(list->mappings[0]));
	copy->count = list->count;
	copy->full = list->full;
	for (size_t i = 0; i < copy->count; i++) {
		if (copy->mappings[i].module)
			module_get(copy->mappings[i].module);
	}
	return copy;
}

static void put_modules(const struct mapping *mappings, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (mappings[i].module)
			module_put(mappings[i].module);
	}
}

void mapping_list_put(struct mapping_list *list, struct slabs *slabs)
{
	if (!list || --list->users)
		return;
	put_modules(list->mappings, list->count);
	put_modules(list->recent, list->recent_count);
	mapping_list_withdraw(list, slabs);
	free(list->mappings);
	free(list->recent);
	free(list);
}

/* Where the result of a merge goes. */
struct merged {
	struct mapping *mappings;
	size_t count, most;
	bool full; /* something found no room */
};

static void merged_append(struct merged *to, const struct mapping *mapping)
{
	if (to->count < to->most) {
		to->mappings[to->count++] = *mapping;
		return;
	}
	to->full = true;
	put_modules(mapping, 1);
}

/* An array of which some part is merged already. */
struct unmerged {
	const struct mapping *mappings;
	size_t count;
	struct mapping first; /* what is left of mappings[0] */
};

static struct unmerged unmerged_init(const struct mapping *mappings, size_t count)
{
	struct unmerged array = {.mappings = mappings, .count = count};

	if (count)
		array.first = mappings[0];
	return array;
}

static void unmerged_advance(struct unmerged *array)
{
	array->mappings++;
	if (--array->count)
		array->first = array->mappings[0];
}

/* Merges two arrays that are sorted and without overlaps. Where both have a mapping, that of `over`
 * remains: its range is cut out of those of `under`. Takes over the uses of modules of both. */
static void merge(struct merged *to, const struct mapping *under, size_t under_count,
		  const struct mapping *over, size_t over_count)
{
	struct unmerged left = unmerged_init(under, under_count);

	for (const struct mapping *cover = over; cover < over + over_count; cover++) {
		for (; left.count && left.first.end <= cover->start; unmerged_advance(&left))
			merged_append(to, &left.first);
		if (left.count && left.first.start < cover->start) {
			struct mapping before = left.first;

			before.end = cover->start;
			if (before.module)
				module_get(before.module);
			merged_append(to, &before);
		}
		for (; left.count && left.first.end <= cover->end; unmerged_advance(&left))
			put_modules(&left.first, 1);
		if (left.count && left.first.start < cover->end) {
			left.first.file_offset += cover->end - left.first.start;
			left.first.start = cover->end;
		}
		merged_append(to, cover);
	}
	for (; left.count; unmerged_advance(&left))
		merged_append(to, &left.first);
}

/* Lets the list be empty, since it is not known any more what it should be. */
static void list_reset(struct mapping_list *list)
{
	put_modules(list->mappings, list->count);
	put_modules(list->recent, list->recent_count);
	list->count = list->recent_count = 0;
}

void mapping_list_merge(struct mapping_list *list)
{
	if (!list || !list->recent_count)
		return;
	size_t most = list->count + 2 * list->recent_count;
	if (most > PROCESS_MAPPINGS_MAX)
		most = PROCESS_MAPPINGS_MAX;
	struct merged merged = {.mappings = malloc(most * sizeof(list->mappings[0])), .most = most};
	if (!merged.mappings) {
		list_reset(list);
		return;
	}
	merge(&merged, list->mappings, list->count, list->recent, list->recent_count);
	free(list->mappings);
	free(list->recent);
	list->mappings = merged.mappings;
	list->count = merged.count;
	list->capacity = most;
	list->full |= merged.full;
	list->recent = NULL;
	list->recent_count = 0;
}

/* Adds a mapping after all others, as when a list is read from /proc/PID/maps. */
static void list_append(struct mapping_list *list, const struct mapping *mapping)
{
	if (ARRAY_RESERVE(list->mappings, list->capacity, list->count + 1, MAPPINGS_FIRST,
			  PROCESS_MAPPINGS_MAX) == 0) {
		list->mappings[list->count++] = *mapping;
		return;
	}
	list->full = true;
	put_modules(mapping, 1);
}

void mapping_list_insert(struct mapping_list *list, const struct mapping *mapping)
{
	struct mapping before[RECENT_MAX];
	const size_t count = list->recent_count;

	if (!count && (!list->count || list->mappings[list->count - 1].end <= mapping->start)) {
		list_append(list, mapping);
		return;
	}
	if (!list->recent)
		list->recent = malloc(RECENT_ROOM * sizeof(list->recent[0]));
	if (!list->recent) {
		put_modules(mapping, 1);
		list_reset(list);
		return;
	}
	struct merged recent = {.mappings = list->recent, .most = RECENT_ROOM};
	memcpy(before, list->recent, count * sizeof(before[0]));
	merge(&recent, before, count, mapping, 1);
	list->recent_count = recent.count;
	if (recent.count >= RECENT_MAX)
		mapping_list_merge(list);
}

bool mapping_list_has(struct mapping_list *list, const struct module *module)
{
	mapping_list_merge(list);
	for (size_t i = 0; list && i < list->count; i++) {
		if (list->mappings[i].module == module)
			return true;
	}
	return false;
}

void mapping_list_replace(struct mapping_list *list, struct module *module, struct module *other)
{
	mapping_list_merge(list);
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
	mapping_list_merge(list);
	const size_t bytes = list->count * sizeof(struct bh_mapping);
	if (list->block.bytes || !list->count)
		return 0;
	if (!share_allows(share, SHARED_SLABS, bytes, slabs_room(slabs)))
		return -EDQUOT;
	int r = slabs_alloc(slabs, bytes, &list->block);
	if (r < 0)
		return r;
	list->block.share = share_ref(share);
	share_take(share, SHARED_SLABS, list->block.bytes);
	struct bh_mapping *to = slabs_at(slabs, &list->block);
	for (size_t i = 0; i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];

		to[i] = (struct bh_mapping){.start = m->start, .end = m->end};
		if (m->module && !m->module->is_memory) {
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
	list->block = (struct slab_block){0};
}

uint64_t mapping_list_start_of(const struct mapping_list *list, const struct module *module)
{
	for (size_t i = 0; list && module && i < list->count; i++) {
		if (list->mappings[i].module == module)
			return list->mappings[i].start;
	}
	return 0;
}
