/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the time that a piece of work took is due to the work itself (time_share.h).
 *
 * How this works: it is the time that passed, with that in which the work waited for a disk, for
 * example. If other processes had the CPU in between, it is only the CPU time: otherwise work would
 * seem to take a hundred times as long on a loaded machine.
 *
 * Example: reading memory takes 50 ms, of which 1 ms was CPU time. If the pages came from a disk,
 * all 50 ms are its own. If the scheduler has interrupted the work (ru_nivcsw), 1 ms is.
 */
#ifndef COMMON_WORK_TIME_H
#define COMMON_WORK_TIME_H

#include <stdint.h>

struct work_time {
	uint64_t began_ns; /* by clock_monotonic_ns() */
	uint64_t cpu_ns;   /* of this thread until then */
	long interruptions;
	long waits; /* how often it has given up the CPU itself, to wait for something */
};

struct work_time work_time_begin(void);

/* Finds out how many nanoseconds have passed since work_time_begin(), and how many of them are the
 * work's own. */
void work_time_end(const struct work_time *begin, uint64_t *passed_ns, uint64_t *own_ns);

/* Returns how much CPU time the thread has used since then, in nanoseconds. */
uint64_t work_time_cpu_ns(const struct work_time *begin);

/* Returns for how long the work has waited since then, with the time until it had the CPU again: 0
 * if it took less than a millisecond, or had no need to wait. */
uint64_t work_time_waited_ns(const struct work_time *begin);

#endif
