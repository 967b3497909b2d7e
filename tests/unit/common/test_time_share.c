/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/time_share.h"
#include "common/time_units.h"

Test(time_share, work_that_took_long_is_made_up_for)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};

	cr_assert(time_share_is_left(&share, 100 * NS_PER_S));
	time_share_spend(&share, 3 * NS_PER_S);
	cr_assert_not(time_share_is_left(&share, 100 * NS_PER_S));
	cr_assert_not(time_share_is_left(&share, 104 * NS_PER_S));
	cr_assert_not(time_share_is_left(&share, 108 * NS_PER_S));
	cr_assert(time_share_is_left(&share, 108 * NS_PER_S + 400));
}

Test(time_share, no_more_than_the_maximum_is_saved)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};

	cr_assert(time_share_is_left(&share, 1));
	cr_assert(time_share_is_left(&share, UINT64_MAX / 2));
	time_share_spend(&share, NS_PER_S);
	cr_assert_not(time_share_is_left(&share, UINT64_MAX / 2));
}

Test(time_share, a_very_long_duration_does_not_overflow)
{
	struct time_share share = {.percent = 25, .most_ns = NS_PER_S};

	cr_assert(time_share_is_left(&share, 1));
	time_share_spend(&share, UINT64_MAX);
	cr_assert_not(time_share_is_left(&share, 1000 * NS_PER_S));
}
