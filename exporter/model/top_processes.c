/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/top_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/model/folded_stacks.h"
#include "exporter/model/largest.h"

/* The samples of one thread; after merge_groups(), those of one entry of the list. */
struct group {
	const char *name;
	uint32_t id; /* pid, or tid when threads are grouped */
	uint32_t members;
	uint64_t samples;
};

static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : (x->id > y->id) - (x->id < y->id);
}

static void count_threads(const struct profile *p, enum group_by group_by, struct group *groups)
{
	for (uint32_t i = 0; i < p->threads_count; i++) {
		const struct profile_thread *thread = &p->threads[i];
		const struct profile_process *process = &p->processes[thread->process];
		const bool by_thread = group_by == GROUP_BY_THREAD;
		const char *name = p->strings[by_thread ? thread->name : process->name];

		groups[i].name = *name ? name : FOLDED_NO_NAME;
		groups[i].id = by_thread ? thread->tid : process->tgid;
	}
	for (uint32_t i = 0; i < p->samples_count; i++)
		groups[p->samples[i].thread].samples += p->samples[i].count;
}

/* Merges sorted groups of one name (and one id, if `by_id` is set) in place, and leaves out those
 * without samples. Returns how many remain. */
static uint32_t merge_groups(struct group *groups, uint32_t count, bool by_id)
{
	uint32_t merged = 0, last_id = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct group next = groups[i];
		struct group *last = merged ? &groups[merged - 1] : NULL;

		if (!next.samples)
			continue;
		if (!last || strcmp(last->name, next.name) != 0 || (by_id && last_id != next.id)) {
			groups[merged] = next;
			groups[merged++].members = 1;
		} else {
			last->samples += next.samples;
			last->members += last_id != next.id;
		}
		last_id = next.id;
	}
	return merged;
}

unsigned int top_processes_find(const struct profile *p, enum group_by group_by,
				struct msg_top_process *top, unsigned int room)
{
	_cleanup_free_ struct group *groups = calloc(p->threads_count, sizeof(*groups));
	_cleanup_free_ uint64_t *samples = calloc(p->threads_count, sizeof(*samples));
	_cleanup_free_ uint32_t *largest = calloc(room, sizeof(*largest));

	if (!groups || !samples || !largest)
		return 0;
	count_threads(p, group_by, groups);
	qsort(groups, p->threads_count, sizeof(*groups), compare_groups);
	const uint32_t count = merge_groups(groups, p->threads_count, group_by == GROUP_BY_PID);
	for (uint32_t i = 0; i < count; i++)
		samples[i] = groups[i].samples;
	const unsigned int found = largest_find(samples, count, largest, room);
	for (unsigned int i = 0; i < found; i++) {
		const struct group *group = &groups[largest[i]];

		top[i] = (struct msg_top_process){
		    .samples = group->samples, .members = group->members, .id = group->id};
		snprintf(top[i].name, sizeof(top[i].name), "%s", group->name);
	}
	return found;
}
