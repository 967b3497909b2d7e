/* SPDX-License-Identifier: Apache-2.0 */
/* Units of time, as 64-bit numbers of nanoseconds: LIMIT_GRACE_MS * NS_PER_MS cannot overflow an
 * int. */
#ifndef COMMON_TIME_UNITS_H
#define COMMON_TIME_UNITS_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define MS_PER_S UINT64_C(1000)

/* Returns the milliseconds of a timeout that must not end before `ns` nanoseconds have passed. */
static inline uint64_t ns_to_ms_round_up(uint64_t ns)
{
	return ns / NS_PER_MS + (ns % NS_PER_MS != 0);
}

#endif
