/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/processes.h"

#include <stdlib.h>
#include <string.h>

/* Returns the link to the process of this tgid. It points to NULL if there is none. */
static struct announced_process **processes_link(struct processes *processes, uint32_t tgid)
{
	struct announced_process **link = &processes->buckets[tgid % PROCESSES_BUCKETS];

	while (*link && (*link)->message.tgid != tgid)
		link = &(*link)->next;
	return link;
}

void processes_announce(struct processes *processes, const struct msg_process *message)
{
	struct announced_process **link = processes_link(processes, message->tgid);
	struct msg_process clean = *message;

	clean.comm[sizeof(clean.comm) - 1] = 0;
	clean.path[sizeof(clean.path) - 1] = 0;
	/* It is the same process when it becomes known whose it is. */
	if (*link)
		(*link)->message.container = clean.container;
	if (*link && !memcmp(&(*link)->message, &clean, sizeof(clean)))
		return;
	if (!*link)
		*link = calloc(1, sizeof(**link));
	if (!*link)
		return;
	(*link)->message = clean;
	(*link)->version++;
}

void processes_remove(struct processes *processes, uint32_t tgid)
{
	struct announced_process **link = processes_link(processes, tgid);
	struct announced_process *process = *link;

	if (!process)
		return;
	*link = process->next;
	free(process);
}

void processes_fini(struct processes *processes)
{
	for (unsigned int i = 0; i < PROCESSES_BUCKETS; i++) {
		while (processes->buckets[i])
			processes_remove(processes, processes->buckets[i]->message.tgid);
	}
}
