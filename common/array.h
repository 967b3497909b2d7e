/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap arrays: how they grow, are made to fit what they have, and are sorted.
 *
 * The owner keeps a pointer, a count and a capacity, all zero at first, and frees the pointer. The
 * policy is the same everywhere: the first allocation has `first` items, each further one is twice
 * as large, and none exceeds `max` items. Doubling makes the cost per appended item constant.
 *
 * Example: append one mapping to a list that may hold 100 of them.
 *
 *     int r = ARRAY_RESERVE(list->items, list->capacity, list->count + 1, 8, 100);
 *     if (r < 0)
 *             return r;
 *     list->items[list->count++] = item;
 */
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* For an array whose owner bounds the number of items elsewhere. */
#define ARRAY_UNLIMITED SIZE_MAX

/* Makes room for `wanted` items in total. `items` is the pointer variable itself and `capacity` a
 * size_t variable; both are changed only on success. Returns 0, -E2BIG if `wanted` exceeds `max`,
 * or -ENOMEM. */
#define ARRAY_RESERVE(items, capacity, wanted, first, max)                                         \
	((wanted) <= (capacity)                                                                    \
	     ? 0                                                                                   \
	     : array_grow(&(items), &(capacity), (wanted), sizeof(*(items)), (first), (max)))

/* Gives back the memory after the first `count` items of an array that will not grow for now. The
 * items may move. An array without items is freed. */
#define ARRAY_FIT(items, capacity, count)                                                          \
	array_fit(&(items), &(capacity), (count), sizeof(*(items)))

/* Sorts items that are sorted in most cases, which one pass over them finds out. `compare` is that
 * of qsort(3). */
void array_sort(void *items, size_t count, size_t item_bytes,
		int (*compare)(const void *, const void *));

/* The general form of ARRAY_RESERVE: `items` is the address of the pointer variable, and an item
 * has `item_bytes` bytes. */
int array_grow(void *items, size_t *capacity, size_t wanted, size_t item_bytes, size_t first,
	       size_t max);

/* The general form of ARRAY_FIT. */
void array_fit(void *items, size_t *capacity, size_t count, size_t item_bytes);

#endif
