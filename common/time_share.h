/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of a role's time that one kind of work may take, when others decide how much of that
 * work there is.
 *
 * How this works: the time that the work took is subtracted from what is left. What is left grows
 * with time, up to a maximum. Work begins only while something is left; it is not interrupted, so
 * it may take more than that, and further work waits until the time is made up for.
 *
 * Example: a share of 25 % and at most 1 s. Work begins at once and takes 3 s, so -2 s are left.
 * No work begins in the following 8 s.
 */
#ifndef COMMON_TIME_SHARE_H
#define COMMON_TIME_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct time_share {
	unsigned int percent;
	uint64_t most_ns; /* that can be left, and is left in the beginning */
	int64_t left_ns;
	uint64_t grown_ns; /* what is left was last calculated then; 0: never */
};

/* Returns whether work may begin at `now_ns`, in the time of clock_monotonic_ns(). */
bool time_share_is_left(struct time_share *share, uint64_t now_ns);

/* Subtracts the time that work took. */
void time_share_spend(struct time_share *share, uint64_t ns);

#endif
