/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see clock_history.h. */
#include "symbolizer/worker/clock_history.h"

#include <string.h>

#include "common/time_units.h"

enum {
	/* The time of a file may be that of the last tick of the kernel's clock, and a process may
	 * be interrupted between reading two clocks. */
	SLACK_MS = 20,
};

static const uint64_t slack_ns = SLACK_MS * NS_PER_MS;

/* Adds a period that begins after the last one. */
static struct clock_period *period_add(struct clock_history *history)
{
	if (history->count == CLOCK_PERIODS_MAX) {
		history->count--;
		memmove(history->periods, history->periods + 1,
			history->count * sizeof(history->periods[0]));
	}
	return &history->periods[history->count++];
}

void clock_history_look(struct clock_history *history, uint64_t unix_ns, uint64_t boot_ns)
{
	const uint64_t difference_ns = unix_ns - boot_ns;
	struct clock_period *last = history->count ? &history->periods[history->count - 1] : NULL;
	const uint64_t last_ns = last ? last->end_ns : 0;

	/* The last period may have lasted until now, even if the clock was set since. */
	if (last)
		last->end_ns = boot_ns;
	if (!last || difference_ns - last->difference_ns + slack_ns > 2 * slack_ns)
		*period_add(history) = (struct clock_period){
		    .begin_ns = last_ns, .end_ns = boot_ns, .difference_ns = difference_ns};
}

/* Returns the boot time of a time of the clock; 0 if it is before the start of the machine, and
 * UINT64_MAX if it is far in the future. Anybody can give a file any time. */
static uint64_t boot_time(const struct clock_period *period, const struct timespec *time)
{
	if (time->tv_sec < 0)
		return 0;
	if ((uint64_t)time->tv_sec >= INT64_MAX / NS_PER_S)
		return UINT64_MAX;
	const uint64_t unix_ns = (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;

	/* The clock may have been set to before the start of the machine. */
	const int64_t boot_ns = (int64_t)(unix_ns - period->difference_ns);

	return boot_ns < 0 ? 0 : (uint64_t)boot_ns;
}

bool clock_history_may_be_since(const struct clock_history *history,
				const struct timespec *file_time, uint64_t start_boot_ns)
{
	for (unsigned int i = 0; i < history->count; i++) {
		const struct clock_period *period = &history->periods[i];
		const uint64_t boot_ns = boot_time(period, file_time);
		const uint64_t from_ns =
		    period->begin_ns > start_boot_ns ? period->begin_ns : start_boot_ns;

		if (boot_ns < UINT64_MAX - slack_ns && boot_ns + slack_ns >= from_ns &&
		    boot_ns <= period->end_ns + slack_ns)
			return true;
	}
	return false;
}
