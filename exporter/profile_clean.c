/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/profile_clean.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/text.h"

#define STRING_BYTES_MAX 4096 /* that of a string in a profile */

static int clean_string(const struct profile *from, uint32_t string, struct profile *to,
			uint32_t *number)
{
	char clean[STRING_BYTES_MAX + 1];
	size_t length = text_clean(clean, sizeof(clean), from->strings[string],
				   profile_string_length(from, string));

	return profile_string(to, clean, length, number);
}

/* One table's numbers in the copy. */
static uint32_t *new_numbers(uint32_t count)
{
	return calloc(count, sizeof(uint32_t));
}

struct copy {
	const struct profile *from;
	struct profile to;
	uint32_t *strings, *mappings, *functions, *locations, *processes;
};

static void copy_fini(struct copy *c)
{
	profile_fini(&c->to);
	free(c->strings);
	free(c->mappings);
	free(c->functions);
	free(c->locations);
	free(c->processes);
}

static int copy_tables(struct copy *c)
{
	const struct profile *p = c->from;
	int r = 0;

	for (uint32_t i = 0; i < p->strings_count && r == 0; i++)
		r = clean_string(p, i, &c->to, &c->strings[i]);
	for (uint32_t i = 0; i < p->mappings_count && r == 0; i++) {
		const struct profile_mapping *m = &p->mappings[i];
		r = profile_mapping(&c->to,
				    &(struct profile_mapping){c->strings[m->filename],
							      c->strings[m->gnu_build_id],
							      c->strings[m->htlhash]},
				    &c->mappings[i]);
	}
	for (uint32_t i = 0; i < p->functions_count && r == 0; i++) {
		const struct profile_function *f = &p->functions[i];
		r = profile_function(&c->to,
				     &(struct profile_function){c->strings[f->name],
								c->strings[f->system_name],
								c->strings[f->filename]},
				     &c->functions[i]);
	}
	for (uint32_t i = 0; i < p->locations_count && r == 0; i++) {
		struct profile_location l = p->locations[i];
		l.mapping = c->mappings[l.mapping];
		l.function = c->functions[l.function];
		l.kind = c->strings[l.kind];
		r = profile_location(&c->to, &l, &c->locations[i]);
	}
	for (uint32_t i = 0; i < p->processes_count && r == 0; i++) {
		struct profile_process process = p->processes[i];
		process.name = c->strings[process.name];
		process.path = c->strings[process.path];
		r = profile_process(&c->to, &process, &c->processes[i]);
	}
	return r;
}

static int copy_samples(struct copy *c)
{
	const struct profile *p = c->from;
	int r = 0;

	for (uint32_t i = 0; i < p->samples_count && r == 0; i++) {
		const struct profile_stack *stack = &p->stacks[p->samples[i].stack];
		struct profile_thread thread = p->threads[p->samples[i].thread];
		_cleanup_free_ uint32_t *locations = new_numbers(stack->count + 1);
		uint32_t thread_number, stack_number;

		if (!locations)
			return -ENOMEM;
		for (uint32_t j = 0; j < stack->count; j++)
			locations[j] = c->locations[p->stack_locations[stack->first + j]];
		thread.process = c->processes[thread.process];
		thread.name = c->strings[thread.name];
		r = profile_thread(&c->to, &thread, &thread_number);
		if (r == 0)
			r = profile_stack(&c->to, locations, stack->count, &stack_number);
		if (r == 0)
			r = profile_add(&c->to, thread_number, stack_number, p->samples[i].count);
	}
	return r;
}

int profile_clean(const struct profile *profile, struct profile *clean)
{
	_cleanup_(copy_fini) struct copy c = {.from = profile};

	int r = profile_init(&c.to, SIZE_MAX);
	if (r < 0)
		return r;
	c.strings = new_numbers(profile->strings_count);
	c.mappings = new_numbers(profile->mappings_count);
	c.functions = new_numbers(profile->functions_count);
	c.locations = new_numbers(profile->locations_count);
	c.processes = new_numbers(profile->processes_count);
	if (!c.strings || !c.mappings || !c.functions || !c.locations || !c.processes)
		return -ENOMEM;
	r = copy_tables(&c);
	if (r == 0)
		r = copy_samples(&c);
	if (r < 0)
		return r;
	c.to.start_unix_ns = profile->start_unix_ns;
	c.to.duration_ns = profile->duration_ns;
	c.to.period_ns = profile->period_ns;
	*clean = c.to;
	memset(&c.to, 0, sizeof(c.to));
	return 0;
}
