/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel side has counted: the one map that an exporter has, and can only read. */
#ifndef EXPORTER_MODEL_COUNTERS_H
#define EXPORTER_MODEL_COUNTERS_H

#include <stdint.h>

#include "ipc/messages.h"

struct counters {
	const struct msg_counters *by_cpu; /* NULL: not there yet */
	uint32_t cpu_count;
};

/* Map those of an EXPORTER_MAPS. 0 or a negative errno. */
int counters_map(struct counters *counters, const struct msg_maps *maps, int fd);

/* Sum over all CPUs. */
uint64_t counters_sum(const struct counters *counters, enum msg_counter which);

#endif
