/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes how long to wait before a role, or all roles, are started again.
 *
 * How this works: a role that had become ready and ran for more than BACKOFF_STEADY_MS is started
 * again at once. Each further failure doubles the wait, from BACKOFF_FIRST_MS up to a maximum. The
 * maximum is short for a role that had become ready, since waiting then costs samples, and long for
 * one that never became ready, since it would probably fail again.
 *
 * Example: a role that ends as soon as it is ready waits 0, 200, 400, 800, 1500, 1500, ... ms. One
 * that never becomes ready waits 0, 200, 400, ..., 25600, 30000, 30000, ... ms.
 *
 * Times are those of clock_monotonic_ns().
 */
#ifndef CONTROL_BACKOFF_H
#define CONTROL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BACKOFF_FIRST_MS = 200,
	BACKOFF_MAX_MS = 30000,
	BACKOFF_MAX_READY_MS = 1500,
	BACKOFF_STEADY_MS = 10000,
};

struct backoff {
	uint64_t started_ns;
	uint64_t due_ns;       /* when to start it again; 0: it runs */
	unsigned int failures; /* in a row */
};

/* Records that the role is being started. */
void backoff_start(struct backoff *backoff, uint64_t now_ns);

/* Records that the role ended, and sets `due_ns`. `was_ready`: it had become ready before. */
void backoff_end(struct backoff *backoff, uint64_t now_ns, bool was_ready);

#endif
