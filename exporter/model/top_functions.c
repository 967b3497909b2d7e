/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/top_functions.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/model/largest.h"

struct function_count {
	uint64_t total;
	uint32_t seen_in;  /* the last sample that was counted, plus one */
	uint32_t location; /* one of its locations, for the name */
};

/* Frames without a function count together for their module. */
static uint32_t function_key(const struct profile *p, uint32_t location)
{
	const struct profile_location *l = &p->locations[location];

	return l->function ? l->function : p->functions_count + l->mapping;
}

static void function_name(const struct profile *p, uint32_t location, char *name, size_t size)
{
	const struct profile_location *l = &p->locations[location];

	if (l->function || !l->mapping) {
		profile_location_name(p, location, name, size);
		return;
	}
	const char *path = p->strings[p->mappings[l->mapping].filename];
	const char *base = strrchr(path, '/');
	snprintf(name, size, "[%.200s]", base ? base + 1 : path);
}

unsigned int top_functions_find(const struct profile *p, struct msg_top_function *top,
				unsigned int room)
{
	const uint32_t keys = p->functions_count + p->mappings_count;
	_cleanup_free_ struct function_count *counts = calloc(keys, sizeof(*counts));
	_cleanup_free_ uint64_t *self = calloc(keys, sizeof(*self));
	_cleanup_free_ uint32_t *largest = calloc(room, sizeof(*largest));

	if (!counts || !self || !largest)
		return 0;
	for (uint32_t i = 0; i < p->samples_count; i++) {
		const struct profile_sample *sample = &p->samples[i];
		const struct profile_stack *stack = &p->stacks[sample->stack];

		for (uint32_t j = 0; j < stack->count; j++) {
			const uint32_t location = p->stack_locations[stack->first + j];
			const uint32_t key = function_key(p, location);
			struct function_count *count = &counts[key];

			if (count->seen_in != i + 1)
				count->total += sample->count;
			if (j == 0)
				self[key] += sample->count;
			count->seen_in = i + 1;
			count->location = location;
		}
	}
	const unsigned int found = largest_find(self, keys, largest, room);
	for (unsigned int i = 0; i < found; i++) {
		const struct function_count *count = &counts[largest[i]];

		top[i] = (struct msg_top_function){.self = self[largest[i]], .total = count->total};
		function_name(p, count->location, top[i].name, sizeof(top[i].name));
	}
	return found;
}
