/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long somebody who reads may have to wait for a process, and what becomes of a process that
 * makes its readers wait too long.
 *
 * How this works: a reader has 100 ms. On an overloaded machine it is the CPU that it waits for,
 * and so does who waits for it. So the latter wakes up every 10 ms, and a part of the wait after
 * which it woke up too late does not count; but after a second it waits no longer.
 */
#ifndef ROLE_PATIENCE_H
#define ROLE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "role/work_page.h"

enum {
	PATIENCE_MS = 100, /* a page from a disk takes up to some tens of milliseconds */
	PATIENCE_PART_MS = 10,
};

struct patience {
	uint64_t began_ns, now_ns; /* CLOCK_MONOTONIC */
	uint64_t counted_ns;
};

struct patience patience_begin(void);

/* Counts the part of the time that has passed since the last one. */
void patience_count(struct patience *patience);

/* Waits a part of the time for `fd`. Returns whether it can be read. */
bool patience_wait(struct patience *patience, int fd);

/* Returns whether the time is over. */
bool patience_is_over(const struct patience *patience);

/* Leaves alone the process that the role works on according to its page, which may be NULL, and
 * logs that, at most once a minute: `*logged_ns` is 0 at first. */
void patience_leave_alone(struct work_page *page, uint64_t *logged_ns);

#endif
