/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see memory_permits.h. */
#include "symbolizer/opener/memory_permits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns the link to the permission for a pid, or to the end of its bucket. */
static struct memory_permit **permit_link(struct memory_permits *permits, uint32_t tgid)
{
	struct memory_permit **link = &permits->buckets[tgid % MEMORY_PERMIT_BUCKETS];

	while (*link && (*link)->allowed.tgid != tgid)
		link = &(*link)->next;
	return link;
}

static void permit_remove(struct memory_permits *permits, struct memory_permit **link)
{
	struct memory_permit *permit = *link;

	*link = permit->next;
	permits->count--;
	free(permit);
}

static void permits_evict_oldest(struct memory_permits *permits)
{
	struct memory_permit **oldest = NULL;

	for (unsigned int i = 0; i < MEMORY_PERMIT_BUCKETS; i++) {
		for (struct memory_permit **link = &permits->buckets[i]; *link;
		     link = &(*link)->next) {
			if (!oldest || (*link)->sequence < (*oldest)->sequence)
				oldest = link;
		}
	}
	if (!oldest)
		return;
	permit_remove(permits, oldest);
	permits->evicted++;
}

int memory_permits_allow(struct memory_permits *permits, const struct msg_allow_memory *allowed)
{
	struct memory_permit **link = permit_link(permits, allowed->tgid);

	if (!*link) {
		struct memory_permit *permit = calloc(1, sizeof(*permit));

		if (!permit)
			return -ENOMEM;
		if (permits->count == LIMIT_MEMORY_PERMITS) {
			permits_evict_oldest(permits);
			link = permit_link(permits, allowed->tgid);
		}
		*link = permit;
		permits->count++;
	}
	(*link)->sequence = ++permits->sequence;
	/* A process whose mappings change often must not get more than its share of attempts. */
	if ((*link)->allowed.exec_generation != allowed->exec_generation)
		(*link)->opens = 0;
	(*link)->allowed = *allowed;
	return 0;
}

void memory_permits_forbid(struct memory_permits *permits, const struct msg_open_memory *forbidden)
{
	struct memory_permit **link = permit_link(permits, forbidden->tgid);

	if (*link && (*link)->allowed.exec_generation == forbidden->exec_generation)
		permit_remove(permits, link);
}

struct memory_permit *memory_permits_find(struct memory_permits *permits,
					  const struct msg_open_memory *request)
{
	struct memory_permit *permit = *permit_link(permits, request->tgid);

	return permit && permit->allowed.exec_generation == request->exec_generation ? permit
										     : NULL;
}

static void waiting_remove(struct memory_permits *permits, unsigned int at)
{
	permits->waiting_count--;
	memmove(&permits->waiting[at], &permits->waiting[at + 1],
		(permits->waiting_count - at) * sizeof(permits->waiting[0]));
}

bool memory_permits_wait(struct memory_permits *permits, const struct msg_open_memory *request,
			 struct msg_open_memory *refused)
{
	const bool full = permits->waiting_count == LIMIT_MEMORY_REQUESTS;

	if (full) {
		*refused = permits->waiting[0];
		waiting_remove(permits, 0);
	}
	permits->waiting[permits->waiting_count++] = *request;
	return full;
}

bool memory_permits_take_waiting(struct memory_permits *permits,
				 const struct msg_allow_memory *allowed)
{
	for (unsigned int i = 0; i < permits->waiting_count; i++) {
		const struct msg_open_memory *request = &permits->waiting[i];

		if (request->tgid == allowed->tgid &&
		    request->exec_generation == allowed->exec_generation) {
			waiting_remove(permits, i);
			return true;
		}
	}
	return false;
}

void memory_permits_fini(struct memory_permits *permits)
{
	for (unsigned int i = 0; i < MEMORY_PERMIT_BUCKETS; i++) {
		while (permits->buckets[i])
			permit_remove(permits, &permits->buckets[i]);
	}
	permits->waiting_count = 0;
}
