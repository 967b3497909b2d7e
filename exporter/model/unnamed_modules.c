/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/unnamed_modules.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/memory_path.h"
#include "exporter/model/largest.h"

/* Returns the mapping of a location that has no name, if it is of a file, or 0. Generated code in
 * memory that has a name like a file has no debug file. */
static uint32_t unnamed_mapping(const struct profile *p, uint32_t location)
{
	const struct profile_location *l = &p->locations[location];
	const char *path = p->strings[p->mappings[l->mapping].filename];

	return (!l->function || p->functions[l->function].name_is_generated) && path[0] == '/' &&
		       !memory_path(path)
		   ? l->mapping
		   : 0;
}

unsigned int unnamed_modules_find(const struct profile *p, struct msg_unnamed_module *top,
				  unsigned int room)
{
	_cleanup_free_ uint64_t *samples = calloc(p->mappings_count, sizeof(*samples));
	/* The last sample that was counted for each mapping, plus one. */
	_cleanup_free_ uint32_t *seen_in = calloc(p->mappings_count, sizeof(*seen_in));
	_cleanup_free_ uint32_t *largest = calloc(room, sizeof(*largest));

	if (!samples || !seen_in || !largest)
		return 0;
	for (uint32_t i = 0; i < p->samples_count; i++) {
		const struct profile_stack *stack = &p->stacks[p->samples[i].stack];

		for (uint32_t j = 0; j < stack->count; j++) {
			const uint32_t mapping =
			    unnamed_mapping(p, p->stack_locations[stack->first + j]);

			if (mapping && seen_in[mapping] != i + 1)
				samples[mapping] += p->samples[i].count;
			seen_in[mapping] = i + 1;
		}
	}
	const unsigned int found = largest_find(samples, p->mappings_count, largest, room);
	for (unsigned int i = 0; i < found; i++) {
		const struct profile_mapping *m = &p->mappings[largest[i]];

		top[i] = (struct msg_unnamed_module){.samples = samples[largest[i]]};
		snprintf(top[i].path, sizeof(top[i].path), "%s", p->strings[m->filename]);
		snprintf(top[i].build_id, sizeof(top[i].build_id), "%s",
			 p->strings[m->gnu_build_id]);
	}
	return found;
}
