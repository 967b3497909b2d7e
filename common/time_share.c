/* SPDX-License-Identifier: Apache-2.0 */
#include "common/time_share.h"

#include "common/time_units.h"

/* What a part has used decreases by the share of this time that has passed. If that is calculated
 * often, rounding makes it decrease too slowly. */
#define PART_DECREASE_NS (2 * NS_PER_S)
#define PART_PRECISION_NS NS_PER_MS
/* How many times as much as is left a group may have used. One alone, which takes all the time of
 * a share of 50 %, has used one second then, so that 125 ms are left to others at any time. */
#define GROUP_TIMES 8
/* More is not counted: products of it and a duration fit into 64 bits. */
#define PART_USED_MAX_NS (1000 * NS_PER_S)

bool time_share_is_left(struct time_share *share, uint64_t now_ns)
{
	const uint64_t passed_ns = now_ns - share->grown_ns;

	if (!share->grown_ns) {
		share->left_ns = (int64_t)share->most_ns;
	} else {
		const uint64_t gained_ns =
		    passed_ns / 100 * share->percent + passed_ns % 100 * share->percent / 100;
		const uint64_t missing_ns = share->most_ns - (uint64_t)share->left_ns;

		share->left_ns += (int64_t)(gained_ns < missing_ns ? gained_ns : missing_ns);
	}
	share->grown_ns = now_ns;
	return share->left_ns > 0;
}

void time_share_spend(struct time_share *share, uint64_t ns)
{
	share->left_ns -= ns < INT64_MAX / 2 ? (int64_t)ns : INT64_MAX / 2;
}

static void part_decrease(struct time_part *part, uint64_t now_ns)
{
	const uint64_t passed_ns = now_ns - part->decreased_ns;

	if (passed_ns >= PART_DECREASE_NS)
		part->used_ns = 0;
	else if (passed_ns >= PART_PRECISION_NS)
		part->used_ns -= part->used_ns * (passed_ns / 1000) / (PART_DECREASE_NS / 1000);
	else
		return;
	part->decreased_ns = now_ns;
}

bool time_part_may_begin(struct time_part *part, struct time_share *whole, uint64_t needed_ns,
			 uint64_t now_ns)
{
	part_decrease(part, now_ns);
	return time_share_is_left(whole, now_ns) &&
	       part->used_ns + 2 * needed_ns < (uint64_t)whole->left_ns;
}

bool time_group_may_begin(struct time_part *group, const struct time_share *whole, uint64_t now_ns)
{
	part_decrease(group, now_ns);
	return whole->left_ns > 0 && group->used_ns < GROUP_TIMES * (uint64_t)whole->left_ns;
}

static uint64_t part_bound(uint64_t ns)
{
	return ns < PART_USED_MAX_NS ? ns : PART_USED_MAX_NS;
}

void time_part_spend(struct time_part *part, struct time_share *whole, uint64_t passed_ns,
		     uint64_t own_ns)
{
	time_share_spend(whole, part_bound(passed_ns));
	time_group_spend(part, own_ns);
}

void time_group_spend(struct time_part *group, uint64_t own_ns)
{
	group->used_ns += part_bound(own_ns);
	if (group->used_ns > PART_USED_MAX_NS)
		group->used_ns = PART_USED_MAX_NS;
}
