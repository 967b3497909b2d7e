/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/top_functions.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

struct function_count {
	uint64_t self, total;
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
	const size_t keys = (size_t)p->functions_count + p->mappings_count;
	_cleanup_free_ struct function_count *counts = calloc(keys, sizeof(*counts));
	unsigned int found = 0;

	for (uint32_t i = 0; counts && i < p->samples_count; i++) {
		const struct profile_sample *sample = &p->samples[i];
		const struct profile_stack *stack = &p->stacks[sample->stack];

		for (uint32_t j = 0; j < stack->count; j++) {
			const uint32_t location = p->stack_locations[stack->first + j];
			struct function_count *count = &counts[function_key(p, location)];

			if (count->seen_in != i + 1)
				count->total += sample->count;
			if (j == 0)
				count->self += sample->count;
			count->seen_in = i + 1;
			count->location = location;
		}
	}
	while (counts && found < room) {
		struct function_count *most = &counts[0];

		for (size_t k = 0; k < keys; k++)
			most = counts[k].self > most->self ? &counts[k] : most;
		if (!most->self)
			break;
		top[found] = (struct msg_top_function){.self = most->self, .total = most->total};
		function_name(p, most->location, top[found].name, sizeof(top[found].name));
		most->self = 0;
		found++;
	}
	return found;
}
