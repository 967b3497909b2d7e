/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/clock.h"

Test(time_units, units_are_64_bit_multiples)
{
	const int week_ms = 604800000;

	cr_assert_eq(MS_PER_S * NS_PER_MS, NS_PER_S);
	cr_assert_eq(1000 * NS_PER_US, NS_PER_MS);
	cr_assert_eq(week_ms * NS_PER_MS, UINT64_C(604800000000000));
}

Test(time_units, timeout_in_milliseconds_is_never_too_short)
{
	cr_assert_eq(ns_to_ms_round_up(0), 0);
	cr_assert_eq(ns_to_ms_round_up(1), 1);
	cr_assert_eq(ns_to_ms_round_up(NS_PER_MS), 1);
	cr_assert_eq(ns_to_ms_round_up(NS_PER_MS + 1), 2);
	cr_assert_eq(ns_to_ms_round_up(UINT64_MAX), UINT64_MAX / NS_PER_MS + 1);
}

Test(time_units, clock_agrees_with_the_c_library)
{
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	const uint64_t now = clock_monotonic_ns();
	clock_gettime(CLOCK_MONOTONIC, &after);
	cr_assert_geq(now, (uint64_t)before.tv_sec * 1000000000u + (uint64_t)before.tv_nsec);
	cr_assert_leq(now, (uint64_t)after.tv_sec * 1000000000u + (uint64_t)after.tv_nsec);
}
