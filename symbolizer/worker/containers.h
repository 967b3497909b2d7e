/* SPDX-License-Identifier: Apache-2.0 */
/* Which container a cgroup belongs to, by the cgroup's id: for processes that are gone before
 * anyone can look. Ids of cgroups are not reused while the host runs. */
#ifndef SYMBOLIZER_WORKER_CONTAINERS_H
#define SYMBOLIZER_WORKER_CONTAINERS_H

#include <stdint.h>

#include "common/limits.h"
#include "parse/cgroup.h"

struct containers {
	struct {
		uint64_t cgroup_id;
		uint64_t used; /* 0: free */
		char id[CGROUP_CONTAINER_MAX + 1];
	} slots[LIMIT_CONTAINERS];
	uint64_t clock; /* of uses */
};

/* The container's id, valid until the next containers_put; "" if it is not known. */
const char *containers_find(struct containers *containers, uint64_t cgroup_id);

/* `id` is cut to CGROUP_CONTAINER_MAX bytes. The least recently used is forgotten if there is no
 * room. */
void containers_put(struct containers *containers, uint64_t cgroup_id, const char *id);

#endif
