/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that replace clock_gettime(): it is later than it really is. */
#ifndef TESTS_SUPPORT_TIMESPEC_ADD_H
#define TESTS_SUPPORT_TIMESPEC_ADD_H

#include <stdint.h>
#include <time.h>

#include "common/time_units.h"

static inline void timespec_add(struct timespec *time, uint64_t ns)
{
	const uint64_t sum = (uint64_t)time->tv_nsec + ns;

	time->tv_sec += (time_t)(sum / NS_PER_S);
	time->tv_nsec = (long)(sum % NS_PER_S);
}

#endif
