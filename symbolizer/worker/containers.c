/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/containers.h"

#include <stdio.h>

/* Returns the slot of a cgroup; if it has none, a free slot or the least recently used one. */
static unsigned int containers_slot(const struct containers *containers, uint64_t cgroup_id)
{
	unsigned int oldest = 0;

	for (unsigned int i = 0; i < LIMIT_CONTAINERS; i++) {
		if (containers->slots[i].used && containers->slots[i].cgroup_id == cgroup_id)
			return i;
		if (containers->slots[i].used < containers->slots[oldest].used)
			oldest = i;
	}
	return oldest;
}

const char *containers_find(struct containers *containers, uint64_t cgroup_id)
{
	const unsigned int i = containers_slot(containers, cgroup_id);

	if (!containers->slots[i].used || containers->slots[i].cgroup_id != cgroup_id)
		return "";
	containers->slots[i].used = ++containers->clock;
	return containers->slots[i].id;
}

void containers_put(struct containers *containers, uint64_t cgroup_id, const char *id)
{
	const unsigned int i = containers_slot(containers, cgroup_id);

	containers->slots[i].cgroup_id = cgroup_id;
	containers->slots[i].used = ++containers->clock;
	snprintf(containers->slots[i].id, sizeof(containers->slots[i].id), "%s", id);
}
