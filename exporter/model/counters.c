/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/counters.h"

#include <errno.h>
#include <sys/mman.h>

int counters_map(struct counters *counters, const struct msg_maps *maps, int fd)
{
	void *at =
	    mmap(NULL, maps->cpu_count * sizeof(struct msg_counters), PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	*counters = (struct counters){.by_cpu = at, .cpu_count = maps->cpu_count};
	return 0;
}

uint64_t counters_sum(const struct counters *counters, enum msg_counter which)
{
	uint64_t sum = 0;

	for (uint32_t cpu = 0; cpu < counters->cpu_count; cpu++)
		sum += *(const volatile uint64_t *)&counters->by_cpu[cpu].value[which];
	return sum;
}
