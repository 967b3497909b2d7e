/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a role has lacked memory long enough that a fresh process of it would do better.
 *
 * How this works: a role that cannot allocate memory goes on with what it has, and counts what it
 * loses. Usually that is over soon. But a process whose limit is reached, or whose heap is full of
 * gaps, may never recover. So at each tick it is checked whether more was lost; a pause of some
 * seconds ends the shortage.
 *
 * Example: 5 samples are lost at 10 s, none until 20 s, and some in each second from then on. The
 * shortage began at 20 s, and is taken for a lasting one at 50 s.
 */
#ifndef COMMON_MEMORY_SHORTAGE_H
#define COMMON_MEMORY_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/limits.h"
#include "common/time_units.h"

/* All zeros: nothing was lost yet. */
struct memory_shortage {
	uint64_t lost;		    /* at the last check */
	uint64_t since_ns, last_ns; /* of this shortage: the first loss and the last; 0: none */
};

/* `lost`: how much was ever lost for lack of memory. Returns whether the shortage lasts for
 * LIMIT_SHORTAGE_MS. */
static inline bool memory_shortage_lasts(struct memory_shortage *shortage, uint64_t lost,
					 uint64_t now_ns)
{
	if (now_ns - shortage->last_ns > LIMIT_SHORTAGE_PAUSE_MS * NS_PER_MS)
		shortage->since_ns = 0;
	if (lost == shortage->lost)
		return false;
	shortage->lost = lost;
	shortage->last_ns = now_ns;
	if (!shortage->since_ns)
		shortage->since_ns = now_ns;
	return now_ns - shortage->since_ns >= LIMIT_SHORTAGE_MS * NS_PER_MS;
}

#endif
