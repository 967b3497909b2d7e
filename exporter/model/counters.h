/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of the BPF programs. They are the only BPF map that an exporter has, mapped
 * read-only. */
#ifndef EXPORTER_MODEL_COUNTERS_H
#define EXPORTER_MODEL_COUNTERS_H

#include <stdint.h>

#include "ipc/messages.h"

struct counters {
	const struct msg_counters *by_cpu; /* NULL: not mapped yet */
	uint32_t cpu_count;
};

/* Maps the counters that an EXPORTER_MAPS message brings. Returns 0 or a negative errno. */
int counters_map(struct counters *counters, const struct msg_maps *maps, int fd);

/* Returns the sum of a counter over all CPUs. */
uint64_t counters_sum(const struct counters *counters, enum msg_counter which);

#endif
