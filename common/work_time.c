/* SPDX-License-Identifier: Apache-2.0 */
#include "common/work_time.h"

#include <sys/resource.h>

#include "common/clock.h"
#include "common/time_units.h"

/* Shorter work is not examined: the scheduler lets others run for longer than this. */
#define EXAMINED_NS NS_PER_MS

struct work_time work_time_begin(void)
{
	struct rusage usage = {0};

	getrusage(RUSAGE_THREAD, &usage);
	const uint64_t us = (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	const uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);

	return (struct work_time){.began_ns = clock_monotonic_ns(),
				  .cpu_ns = seconds * NS_PER_S + us * NS_PER_US,
				  .interruptions = usage.ru_nivcsw,
				  .waits = usage.ru_nvcsw};
}

void work_time_end(const struct work_time *begin, uint64_t *passed_ns, uint64_t *own_ns)
{
	*passed_ns = *own_ns = clock_monotonic_ns() - begin->began_ns;
	if (*passed_ns < EXAMINED_NS)
		return;
	const struct work_time now = work_time_begin();
	const uint64_t cpu_ns = now.cpu_ns - begin->cpu_ns;

	if (now.interruptions != begin->interruptions && cpu_ns < *passed_ns)
		*own_ns = cpu_ns;
}

uint64_t work_time_cpu_ns(const struct work_time *begin)
{
	return work_time_begin().cpu_ns - begin->cpu_ns;
}

uint64_t work_time_waited_ns(const struct work_time *begin)
{
	const uint64_t passed_ns = clock_monotonic_ns() - begin->began_ns;

	if (passed_ns < EXAMINED_NS || work_time_begin().waits == begin->waits)
		return 0;
	return passed_ns;
}
