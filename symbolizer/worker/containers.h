/* SPDX-License-Identifier: Apache-2.0 */
/* Which container a cgroup belongs to, by the id of the cgroup. This gives a container to processes
 * that have ended before the opener could look. The kernel does not reuse ids of cgroups. */
#ifndef SYMBOLIZER_WORKER_CONTAINERS_H
#define SYMBOLIZER_WORKER_CONTAINERS_H

#include <stdint.h>

#include "symbolizer/worker/limits.h"
#include "parse/cgroup.h"

struct containers {
	struct {
		uint64_t cgroup_id;
		uint64_t used; /* 0: free */
		char id[CGROUP_CONTAINER_MAX + 1];
	} slots[LIMIT_CONTAINERS];
	uint64_t clock; /* of uses */
};

/* Returns the container's id, valid until the next containers_put(); "" if none is recorded. */
const char *containers_find(struct containers *containers, uint64_t cgroup_id);

/* Records the container of a cgroup. `id` is cut to CGROUP_CONTAINER_MAX bytes. If there is no
 * room, the least recently used entry is evicted. */
void containers_put(struct containers *containers, uint64_t cgroup_id, const char *id);

#endif
