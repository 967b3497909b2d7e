/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file was written after a process has started, although somebody has set the clock.
 *
 * The kernel dates files by CLOCK_REALTIME, which can be set at any moment, and the starts of
 * processes by CLOCK_BOOTTIME, which never jumps. The difference of the two clocks is the same as
 * long as nobody sets one of them; a correction of their speed changes both. So the history
 * is a list of periods with one difference each. The time of a file is possible in a period if its
 * boot time by that difference lies in the period.
 *
 * Example: a process starts at boot time 100 s and writes its file at 110 s, when it is 12:00:10 by
 * the clock (difference: 11:58:20). At boot time 200 s the clock is set to 18:00:00 (17:56:40). By
 * the present difference the file is six hours older than its process. But 12:00:10 is boot time
 * 110 s by the first difference, and that lies in the first period, after the start of the process.
 *
 * What was before the first look is unknown; the first difference counts from the start of the
 * machine.
 */
#ifndef SYMBOLIZER_WORKER_CLOCK_HISTORY_H
#define SYMBOLIZER_WORKER_CLOCK_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
	/* When there are more, the oldest is dropped: files that were written then count as older
	 * than their process. */
	CLOCK_PERIODS_MAX = 16,
};

/* A time in which nobody set the clock. The boot times are when it began at the earliest, and ended
 * at the latest. */
struct clock_period {
	uint64_t begin_ns, end_ns;
	uint64_t difference_ns; /* of CLOCK_REALTIME to CLOCK_BOOTTIME, modulo 2^64 */
};

/* All zero: nothing is known yet. */
struct clock_history {
	struct clock_period periods[CLOCK_PERIODS_MAX]; /* the oldest first */
	unsigned int count;
};

/* Notes the present in both clocks. It has to be called often: when a clock was set is known as
 * exactly as that. */
void clock_history_look(struct clock_history *history, uint64_t unix_ns, uint64_t boot_ns);

/* Returns whether a file with this time may have been written after a process started. If the clock
 * was set back, a time may be possible in two periods; one of them is enough. */
bool clock_history_may_be_since(const struct clock_history *history,
				const struct timespec *file_time, uint64_t start_boot_ns);

#endif
