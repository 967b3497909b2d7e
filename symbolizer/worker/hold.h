/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a sample has waited in the ring for an answer of the opener.
 *
 * The time starts with the first sample that can wait, not when the opener was asked: the frames
 * before it may have taken long, such as the symbols of a large file on a slow disk. The worker
 * handles messages between two tries of the sample. So after some of them it has read an answer
 * that was there, however long something else took.
 */
#ifndef SYMBOLIZER_WORKER_HOLD_H
#define SYMBOLIZER_WORKER_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/time_units.h"

enum {
	HOLD_TRIES = 3,
};

/* All zeros: no sample waits. */
struct hold {
	uint64_t since_ns;
	unsigned int tries;
	bool over; /* no sample waits for this answer any more */
};

/* Lets the sample wait until it is tried again. */
static inline void hold_go_on(struct hold *hold, uint64_t now_ns)
{
	if (!hold->since_ns)
		hold->since_ns = now_ns;
	hold->tries++;
}

/* Returns whether a sample has waited for this long, and was tried often enough. */
static inline bool hold_is_over(const struct hold *hold, uint64_t ms, uint64_t now_ns)
{
	return hold->since_ns && hold->tries >= HOLD_TRIES &&
	       now_ns - hold->since_ns >= ms * NS_PER_MS;
}

/* Returns how long a sample has waited so far. */
static inline uint64_t hold_ns(const struct hold *hold, uint64_t now_ns)
{
	return hold->since_ns ? now_ns - hold->since_ns : 0;
}

#endif
