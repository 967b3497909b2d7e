/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/runtime_slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/sequence_lock.h"

enum {
	SLOT_TOMBSTONE = UINT32_MAX /* in place of a tgid: a search continues after it */
};

int runtime_slots_take_block(struct runtime_slots *slots)
{
	for (int i = 0; slots->table && i < RUNTIME_BLOCKS; i++) {
		if (slots->block_used[i])
			continue;
		slots->block_used[i] = true;
		memset(&slots->table->blocks[i], 0, sizeof(slots->table->blocks[i]));
		return i;
	}
	return RUNTIME_NO_BLOCK;
}

void runtime_slots_give_block(struct runtime_slots *slots, int block)
{
	if (block != RUNTIME_NO_BLOCK)
		slots->block_used[block] = false;
}

static struct bh_runtime_slot *slot_at(const struct runtime_slots *slots, uint32_t index)
{
	return &slots->table->slots[index & (RUNTIME_SLOTS - 1)];
}

static struct bh_runtime_slot *slot_find(const struct runtime_slots *slots, uint32_t tgid)
{
	for (uint32_t i = 0; i < BH_RUNTIME_PROBES; i++) {
		struct bh_runtime_slot *slot = slot_at(slots, bh_runtime_hash(tgid) + i);

		if (slot->tgid == tgid)
			return slot;
	}
	return NULL;
}

static struct bh_runtime_slot *slot_take(const struct runtime_slots *slots, uint32_t tgid)
{
	struct bh_runtime_slot *slot = slot_find(slots, tgid);

	for (uint32_t i = 0; i < BH_RUNTIME_PROBES && !slot; i++) {
		struct bh_runtime_slot *s = slot_at(slots, bh_runtime_hash(tgid) + i);

		if (!s->tgid || s->tgid == SLOT_TOMBSTONE)
			slot = s;
	}
	return slot;
}

static void ranges_mark(struct runtime_slots *slots, uint32_t first, uint32_t count, bool used)
{
	for (uint32_t i = first; i < first + count && i < RUNTIME_RANGES; i++)
		slots->range_used[i] = used;
}

/* Takes the first `count` adjacent free ranges. Returns the first one, or RUNTIME_RANGES. */
static uint32_t ranges_take(struct runtime_slots *slots, uint32_t count)
{
	for (uint32_t first = 0, run = 0; first + run < RUNTIME_RANGES;) {
		if (slots->range_used[first + run]) {
			first += run + 1;
			run = 0;
		} else if (++run == count) {
			ranges_mark(slots, first, count, true);
			return first;
		}
	}
	return RUNTIME_RANGES;
}

static int range_compare(const void *a, const void *b)
{
	const struct runtime_slot_range *x = a, *y = b;

	return (x->range.start > y->range.start) - (x->range.start < y->range.start);
}

static uint64_t range_bytes(const struct bh_runtime_range *range)
{
	return range->end - range->start;
}

/* Sorts the ranges and drops those that are empty, or end at 1 << 62 or above. Where two overlap,
 * the smaller one is kept, and the larger one is cut: V8's range for code is a guess at what it
 * reserves, in which another runtime may have its code. What the larger one has above the smaller
 * one is dropped if that is inside. */
static size_t ranges_sort(struct runtime_slot_range *ranges, size_t count)
{
	size_t kept = 0;

	qsort(ranges, count, sizeof(*ranges), range_compare);
	for (size_t i = 0; i < count; i++) {
		struct runtime_slot_range added = ranges[i];
		struct bh_runtime_range *before = kept ? &ranges[kept - 1].range : NULL;

		if (added.range.start >= added.range.end || added.range.end >> 62)
			continue;
		if (before && added.range.start < before->end) {
			if (range_bytes(&added.range) < range_bytes(before))
				before->end = added.range.start;
			else
				added.range.start = before->end;
			kept -= before->start >= before->end;
		}
		if (added.range.start < added.range.end)
			ranges[kept++] = added;
	}
	return kept;
}

/* Sets the two smallest intervals that contain all ranges in files. They are split at the widest
 * gap. */
static void slot_set_texts(struct bh_runtime_slot *slot, const struct runtime_slot_range *ranges,
			   size_t count)
{
	struct bh_runtime_code_filter *code_filters = slot->code_filters;
	const struct bh_runtime_range *first = NULL, *last = NULL, *below = NULL, *above = NULL;
	uint64_t widest = 0;

	memset(code_filters, 0, sizeof(slot->code_filters));
	for (size_t i = 0; i < count; i++) {
		const struct bh_runtime_range *r = &ranges[i].range;

		if (!ranges[i].in_file)
			continue;
		if (last && r->start - last->end >= widest) {
			widest = r->start - last->end;
			below = last;
			above = r;
		}
		first = first ? first : r;
		last = r;
	}
	if (!first)
		return;
	code_filters[0].start = first->start;
	code_filters[0].bytes = (below ? below : last)->end - first->start;
	if (above) {
		code_filters[1].start = above->start;
		code_filters[1].bytes = last->end - above->start;
	}
}

static void slot_clear(struct runtime_slots *slots, struct bh_runtime_slot *slot)
{
	ranges_mark(slots, slot->first_range, slot->range_count, false);
	slot->first_range = slot->range_count = 0;
	memset(slot->code_filters, 0, sizeof(slot->code_filters));
}

/* Frees a slot. The kernel side's search ends at a free slot, so tombstones before a free slot are
 * not needed and become free as well. */
static void slot_free(struct runtime_slots *slots, struct bh_runtime_slot *slot)
{
	uint32_t index = (uint32_t)(slot - slots->table->slots);

	slot->tgid = SLOT_TOMBSTONE;
	for (int i = 0; i < RUNTIME_SLOTS; i++, index--) {
		if (slot_at(slots, index)->tgid != SLOT_TOMBSTONE ||
		    slot_at(slots, index + 1)->tgid)
			return;
		slot_at(slots, index)->tgid = 0;
	}
}

void runtime_slots_empty(struct runtime_slots *slots)
{
	for (int i = 0; i < RUNTIME_SLOTS; i++) {
		struct bh_runtime_slot *slot = &slots->table->slots[i];

		if (!slot->tgid && !(slot->sequence & 1))
			continue;
		sequence_lock_begin(&slot->sequence);
		slot->first_range = slot->range_count = 0;
		memset(slot->code_filters, 0, sizeof(slot->code_filters));
		slot->tgid = 0;
		sequence_lock_end(&slot->sequence);
	}
}

int runtime_slots_publish(struct runtime_slots *slots, uint32_t tgid,
			  struct runtime_slot_range *ranges, size_t count,
			  void (*fill)(void *context, struct bh_runtime_table *table),
			  void *context)
{
	struct bh_runtime_slot *slot = slots->table ? slot_take(slots, tgid) : NULL;

	if (!slot)
		return -ENOSPC;
	sequence_lock_begin(&slot->sequence);
	slot_clear(slots, slot);
	count = ranges_sort(ranges, count);
	const uint32_t first = count && count <= RUNTIME_PROCESS_RANGES_MAX
				   ? ranges_take(slots, (uint32_t)count)
				   : RUNTIME_RANGES;
	if (first == RUNTIME_RANGES) {
		slot_free(slots, slot);
		sequence_lock_end(&slot->sequence);
		return count ? -ENOSPC : 0;
	}
	for (size_t i = 0; i < count; i++)
		slots->table->ranges[first + i] = ranges[i].range;
	fill(context, slots->table);
	slot->first_range = first;
	slot->range_count = (uint32_t)count;
	slot_set_texts(slot, ranges, count);
	slot->tgid = tgid;
	sequence_lock_end(&slot->sequence);
	return 0;
}

void runtime_slots_remove(struct runtime_slots *slots, uint32_t tgid)
{
	struct bh_runtime_slot *slot = slots->table ? slot_find(slots, tgid) : NULL;

	if (!slot)
		return;
	sequence_lock_begin(&slot->sequence);
	slot_clear(slots, slot);
	slot_free(slots, slot);
	sequence_lock_end(&slot->sequence);
}
