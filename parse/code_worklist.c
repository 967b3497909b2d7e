/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/code_worklist.h"

#include <stdlib.h>

#include "common/array.h"

enum {
	INITIAL_CAPACITY = 256,
};

int code_worklist_push(struct code_worklist *list, struct code_work work)
{
	int r = ARRAY_RESERVE(list->items, list->capacity, list->count + 1, INITIAL_CAPACITY,
			      ARRAY_UNLIMITED);

	if (!r)
		list->items[list->count++] = work;
	return r;
}

struct code_work code_worklist_pop(struct code_worklist *list)
{
	return list->items[--list->count];
}

void code_worklist_fini(struct code_worklist *list)
{
	free(list->items);
	*list = (struct code_worklist){0};
}
