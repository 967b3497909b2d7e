/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks as 64-bit nanoseconds. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "common/time_units.h"

/* Returns the time of a POSIX clock such as CLOCK_REALTIME, in nanoseconds. */
static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Returns the time, in nanoseconds, of the clock of all durations, deadlines and samples of the
 * kernel side. It never jumps. */
static inline uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* Returns the time since the machine started, in nanoseconds: the clock of ages that others are
 * shown. Unlike CLOCK_REALTIME it cannot be set, and unlike CLOCK_MONOTONIC it goes on while the
 * machine is suspended. */
static inline uint64_t clock_boot_ns(void)
{
	return clock_read_ns(CLOCK_BOOTTIME);
}

/* Returns what a time of clock_monotonic_ns() is in boot time, or a little more, never less. Boot
 * time goes on while the machine is suspended; the kernel says in it when a process started. */
static inline uint64_t clock_monotonic_to_boot_ns(uint64_t monotonic_ns)
{
	const uint64_t now_ns = clock_monotonic_ns();

	return monotonic_ns + (clock_boot_ns() - now_ns);
}

#endif
