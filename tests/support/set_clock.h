/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that somebody sets. A test that defines SET_CLOCK once, and whose target is listed for
 * bulkhead_set_clock() in its CMakeLists.txt, changes set_clock_by_ns: CLOCK_REALTIME is then that
 * much ahead of the clock of this machine, which is not changed. The linker directs the calls of
 * the program and of the static libraries under test here, as in failing_memory.h.
 */
#ifndef TESTS_SUPPORT_SET_CLOCK_H
#define TESTS_SUPPORT_SET_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "common/time_units.h"

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

#define SET_CLOCK                                                                                  \
	static int64_t set_clock_by_ns;                                                            \
	int __wrap_clock_gettime(clockid_t clock, struct timespec *time)                           \
	{                                                                                          \
		const int r = __real_clock_gettime(clock, time);                                   \
		if (r || clock != CLOCK_REALTIME)                                                  \
			return r;                                                                  \
		const int64_t ns =                                                                 \
		    time->tv_sec * (int64_t)NS_PER_S + time->tv_nsec + set_clock_by_ns;            \
		*time = (struct timespec){.tv_sec = ns / (int64_t)NS_PER_S,                        \
					  .tv_nsec = ns % (int64_t)NS_PER_S};                      \
		return 0;                                                                          \
	}                                                                                          \
	_Static_assert(sizeof(int64_t), "")

#endif
