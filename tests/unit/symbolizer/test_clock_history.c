/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a file was written after a process has started, while somebody sets the clock. The times
 * are seconds. The machine started at UNIX. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "common/time_units.h"
#include "symbolizer/worker/clock_history.h"

enum {
	UNIX = 1000000000,
	HOUR = 3600,
};

static struct clock_history history;

/* Looks at the clocks each second. The clock is `set_by` ahead of what it was at the start. */
static void pass(unsigned int from, unsigned int to, int set_by)
{
	for (unsigned int boot = from; boot <= to; boot++)
		clock_history_look(&history, (UNIX + boot + set_by) * (int64_t)NS_PER_S,
				   boot * NS_PER_S);
}

static bool may_be(int64_t file, unsigned int start)
{
	const struct timespec time = {.tv_sec = (time_t)file};

	return clock_history_may_be_since(&history, &time, start * NS_PER_S);
}

Test(clock_history, the_clock_is_not_set)
{
	pass(500, 600, 0);
	cr_expect_eq(history.count, 1);
	cr_expect(may_be(UNIX + 120, 100));
	cr_expect(may_be(UNIX + 100, 100));
	cr_expect(may_be(UNIX + 600, 100));
	cr_expect_not(may_be(UNIX + 99, 100));
	cr_expect_not(may_be(UNIX + 601, 100));
}

Test(clock_history, nothing_is_known)
{
	cr_expect_not(may_be(UNIX, 0));
}

Test(clock_history, it_is_set_forward)
{
	pass(50, 199, 0);
	pass(200, 300, HOUR);
	cr_expect_eq(history.count, 2);
	/* Written before. */
	cr_expect(may_be(UNIX + 110, 100));
	cr_expect(may_be(UNIX + 199, 100));
	cr_expect_not(may_be(UNIX + 99, 100));
	/* Written since. */
	cr_expect(may_be(UNIX + HOUR + 200, 100));
	cr_expect(may_be(UNIX + HOUR + 250, 250));
	cr_expect_not(may_be(UNIX + HOUR + 249, 250));
	/* The clock has jumped over this time. */
	cr_expect_not(may_be(UNIX + HOUR / 2, 100));
	/* An earlier process has written it. */
	cr_expect_not(may_be(UNIX + 150, 250));
}

Test(clock_history, it_is_set_back)
{
	pass(50, 4999, 0);
	pass(5000, 5100, -HOUR);
	cr_expect(may_be(UNIX + 4500, 100));
	cr_expect_not(may_be(UNIX + 4500, 4600));
	cr_expect(may_be(UNIX + 5050 - HOUR, 5040));
	cr_expect_not(may_be(UNIX + 5030 - HOUR, 5040));
	/* Twice it was this time. */
	cr_expect(may_be(UNIX + 5050 - HOUR, 1300));
	cr_expect_not(may_be(UNIX + 5101, 100));
}

/* It was set at some time between two looks, and the file was written then. */
Test(clock_history, it_is_set_between_two_looks)
{
	pass(100, 100, 0);
	pass(110, 110, HOUR);
	cr_expect(may_be(UNIX + 109, 100));
	cr_expect(may_be(UNIX + HOUR + 101, 100));
}

/* The two clocks are not read at the same moment. */
Test(clock_history, small_differences_are_not_periods)
{
	for (uint64_t boot_ns = 0; boot_ns < 100 * NS_PER_S; boot_ns += NS_PER_S)
		clock_history_look(&history,
				   UNIX * NS_PER_S + boot_ns + boot_ns / NS_PER_S % 7 * NS_PER_MS,
				   boot_ns);
	cr_expect_eq(history.count, 1);
}

Test(clock_history, it_is_set_again_and_again)
{
	for (int i = 0; i < 3 * CLOCK_PERIODS_MAX; i++)
		pass(100 * i, 100 * i + 99, i * HOUR);
	cr_expect_eq(history.count, CLOCK_PERIODS_MAX);
	const int last = 3 * CLOCK_PERIODS_MAX - 1;

	cr_expect(may_be(UNIX + 100 * last + last * HOUR + 5, 0));
	cr_expect(may_be(UNIX + 100 * (last - 1) + (last - 1) * HOUR + 5, 0));
	cr_expect_not(may_be(UNIX + 5, 0));
}

Test(clock_history, a_file_with_a_forged_time)
{
	pass(50, 60, 0);
	for (unsigned int start = 0; start < 2; start++) {
		cr_expect_not(may_be(INT64_MAX, start));
		cr_expect_not(may_be(INT64_MAX / (int64_t)NS_PER_S + 1, start));
	}
	cr_expect_not(may_be(INT64_MIN, 1));
	cr_expect_not(may_be(-1, 1));
	/* The clock was set to before the machine started. */
	clock_history_look(&history, NS_PER_S, 61 * NS_PER_S);
	cr_expect(may_be(1, 50));
	cr_expect_not(may_be(70, 50));
	cr_expect_not(may_be(INT64_MAX, 50));
}
