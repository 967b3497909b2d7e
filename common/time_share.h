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
 *
 * Many may have one share together, each of them a part (struct time_part). A part may have used at
 * most as much as is left of the share. So those that need much leave something to those that need
 * little, however many they are, and one alone may use half of the share. What a part has used
 * decreases by half of it per second.
 *
 * Parts may belong to groups, each of which is a part as well. A group may have used several times
 * as much as is left, so that it matters only for one with many members.
 *
 * Example: 300 ms are left, and ten processes need all the time that they can get. The first one
 * uses 150 ms, the second one 75 ms, and so on. If the share grows by 500 ms per second, each of
 * the ten gets 50 ms of them per second after a while. Each has used 100 ms then, and as much is
 * left: an eleventh process that has used nothing yet may use half of that at once.
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

/* All zeros: nothing was used yet. */
struct time_part {
	uint64_t used_ns;
	uint64_t decreased_ns; /* when that was last decreased */
};

/* Returns whether work may begin at `now_ns`, in the time of clock_monotonic_ns(). */
bool time_share_is_left(struct time_share *share, uint64_t now_ns);

/* Subtracts the time that work took. */
void time_share_spend(struct time_share *share, uint64_t ns);

/* Returns whether work for a part may begin at `now_ns`, which will take at least `needed_ns`: it
 * must still be true afterwards that the part has used less than what is left of the whole. */
bool time_part_may_begin(struct time_part *part, struct time_share *whole, uint64_t needed_ns,
			 uint64_t now_ns);

/* Returns whether work for a member of a group may begin. */
bool time_group_may_begin(struct time_part *group, const struct time_share *whole, uint64_t now_ns);

/* Counts the time of time_part_spend() for the group of the part, too. */
void time_group_spend(struct time_part *group, uint64_t own_ns);

/* Subtracts the time that work for a part took from what is left of the whole: `passed_ns`, in
 * which all others waited. The part has used `own_ns` of them (work_time.h). */
void time_part_spend(struct time_part *part, struct time_share *whole, uint64_t passed_ns,
		     uint64_t own_ns);

#endif
