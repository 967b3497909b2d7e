/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts symbols by address, with an in-place radix sort. A hostile file may have its symbols in any
 * order: the time of this sort does not depend on the order, and it needs no memory.
 */
#include "common/slices.h"
#include "symbolizer/worker/symbols_private.h"

enum {
	SORT_SMALL = 24, /* below this many entries, insertion is faster than radix sort */
	SORT_PAUSE_MOVES = 1 << 15, /* between two pauses (slices.h) */
};

static void insertion_sort(struct symbol_entry *entries, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct symbol_entry moved = entries[i];
		size_t at = i;

		for (; at > 0 && entries[at - 1].start > moved.start; at--)
			entries[at] = entries[at - 1];
		entries[at] = moved;
	}
}

/* Sorts by `start`, from the byte at `shift` down to the lowest one. */
static void radix_sort(struct symbol_entry *entries, size_t count, unsigned int shift)
{
	uint32_t next[256], end[256] = {0};

	if (count <= SORT_SMALL) {
		insertion_sort(entries, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		end[entries[i].start >> shift & 255]++;
	for (unsigned int i = 0, sum = 0; i < 256; i++) {
		next[i] = sum;
		sum += end[i];
		end[i] = sum;
	}
	for (unsigned int i = 0, moves = 0; i < 256; i++) {
		while (next[i] < end[i]) {
			struct symbol_entry *entry = &entries[next[i]];
			unsigned int to = entry->start >> shift & 255;

			if (moves++ % SORT_PAUSE_MOVES == 0)
				slices_pause_when_due();
			if (to == i) {
				next[i]++;
				continue;
			}
			struct symbol_entry swapped = entries[next[to]];
			entries[next[to]++] = *entry;
			*entry = swapped;
		}
	}
	for (unsigned int i = 0; i < 256 && shift > 0; i++) {
		uint32_t first = i ? end[i - 1] : 0;

		if (end[i] - first > 1)
			radix_sort(entries + first, end[i] - first, shift - 8);
	}
}

void symbol_sort(struct symbol_entry *entries, size_t count)
{
	radix_sort(entries, count, 24);
}
