/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "control/backoff.h"

#define MS 1000000ull

/* Computes the wait in ms after each of `count` failures of something that runs for `lives_ms`. */
static void waits(bool was_ready, uint64_t lives_ms, unsigned int count, uint64_t *waits_ms)
{
	struct backoff backoff = {0};
	uint64_t now = 5 * MS;

	for (unsigned int i = 0; i < count; i++) {
		backoff_start(&backoff, now);
		cr_assert_eq(backoff.due_ns, 0, "nothing is due while it runs");
		now += lives_ms * MS;
		backoff_end(&backoff, now, was_ready);
		waits_ms[i] = (backoff.due_ns - now) / MS;
		now = backoff.due_ns;
	}
}

Test(backoff, a_role_that_never_became_ready_waits_longer_each_time)
{
	static const uint64_t expected[] = {0,	  200,	 400,	800,   1600, 3200,
					    6400, 12800, 25600, 30000, 30000};
	uint64_t got[11];

	waits(false, 1, 11, got);
	cr_assert_arr_eq(got, expected, sizeof(expected));
}

Test(backoff, a_role_that_had_become_ready_waits_at_most_1500_ms)
{
	static const uint64_t expected[] = {0, 200, 400, 800, 1500, 1500};
	uint64_t got[6];

	waits(true, 1, 6, got);
	cr_assert_arr_eq(got, expected, sizeof(expected));
}

Test(backoff, a_role_that_ran_steadily_starts_again_at_once)
{
	static const uint64_t expected[] = {0, 0, 0};
	uint64_t got[3];

	waits(true, BACKOFF_STEADY_MS + 1, 3, got);
	cr_assert_arr_eq(got, expected, sizeof(expected));
}

Test(backoff, what_hangs_before_it_is_ready_waits_longer_each_time)
{
	static const uint64_t expected[] = {0, 200, 400, 800};
	uint64_t got[4];

	waits(false, BACKOFF_STEADY_MS + 1, 4, got);
	cr_assert_arr_eq(got, expected, sizeof(expected));
}
