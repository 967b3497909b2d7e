/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/memory_copies.h"

#include <string.h>

bool memory_copy_is(const void *record, size_t length)
{
	const struct bh_memory_copy *copy = record;

	return length >= sizeof(*copy) && length <= BH_MEMORY_COPY_MAX &&
	       copy->header.flags == BH_RECORD_COPY;
}

void memory_copies_add(struct memory_copies *copies, const void *record, size_t length)
{
	struct memory_copy *entry = &copies->entries[copies->next];

	copies->next = (copies->next + 1) % LIMIT_MEMORY_COPIES;
	memcpy(entry->record, record, length);
	entry->bytes = length;
}

const struct memory_copy *memory_copies_find(const struct memory_copies *copies, uint32_t tgid,
					     const uint64_t *words)
{
	for (unsigned int i = 1; i <= LIMIT_MEMORY_COPIES; i++) {
		const struct memory_copy *entry =
		    &copies
			 ->entries[(copies->next + LIMIT_MEMORY_COPIES - i) % LIMIT_MEMORY_COPIES];
		const struct bh_memory_copy *copy = (const struct bh_memory_copy *)entry->record;

		if (entry->bytes && copy->header.tgid == tgid && copy->frame == words[0] &&
		    copy->word >> 32 == words[1] >> 32)
			return entry;
	}
	return NULL;
}
