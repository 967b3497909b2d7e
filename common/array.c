/* SPDX-License-Identifier: Apache-2.0 */
#include "common/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t array_next_capacity(size_t capacity, size_t wanted, size_t first, size_t max)
{
	size_t next = capacity;

	do {
		if (!next)
			next = first ? first : 1;
		else
			next = next <= max / 2 ? next * 2 : max;
	} while (next < wanted);
	return next < max ? next : max;
}

int array_grow(void *items, size_t *capacity, size_t wanted, size_t item_bytes, size_t first,
	       size_t max)
{
	void *old;

	if (wanted <= *capacity)
		return 0;
	if (wanted > max)
		return -E2BIG;
	const size_t next = array_next_capacity(*capacity, wanted, first, max);
	/* The caller's pointer has a type of its own, so it is copied instead of dereferenced. */
	memcpy(&old, items, sizeof(old));
	void *grown = reallocarray(old, next, item_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(items, &grown, sizeof(grown));
	*capacity = next;
	return 0;
}

void array_fit(void *items, size_t *capacity, size_t count, size_t item_bytes)
{
	void *old;

	if (count >= *capacity)
		return;
	memcpy(&old, items, sizeof(old));
	void *fitting = NULL;
	if (count == 0)
		free(old);
	else
		fitting = realloc(old, count * item_bytes);
	if (count && !fitting)
		return; /* it keeps its memory */
	memcpy(items, &fitting, sizeof(fitting));
	*capacity = count;
}

void array_sort(void *items, size_t count, size_t item_bytes,
		int (*compare)(const void *, const void *))
{
	const char *item = items;

	for (size_t i = 1; i < count; i++, item += item_bytes) {
		if (compare(item, item + item_bytes) <= 0)
			continue;
		qsort(items, count, item_bytes, compare);
		break;
	}
}
