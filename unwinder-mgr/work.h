/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager's periodic work, which no message and no record announces: it retries what waits,
 * frees what is unused, reports that it is ready, and ends the recording.
 *
 * How this works. The loop's tick does all of this in a fixed order. It normally comes once per
 * second. While something waits that may soon be possible (a deferred stack, a table without a
 * slab, the end), it comes every WORK_SOON_MS.
 *
 * The life of the manager, as role.state:
 *
 *	ROLE_CONFIGURED  it has its maps and scans the processes that already run
 *	ROLE_READY       the scan and the tables it needs are done, or READY_MS have passed
 *	ROLE_STOPPING    STOP has come: deferred stacks are still walked, for DRAIN_MS at most
 *	ROLE_STOPPED     every sample has been sent to the worker
 */
#ifndef UNWINDER_MGR_WORK_H
#define UNWINDER_MGR_WORK_H

struct manager;

enum {
	WORK_SOON_MS = 10 /* until the next tick, when there is something to do */
};

/* Starts the tick. The first scan starts when the opener is connected. */
void work_start(struct manager *manager);

/* The opener has ended, and with it what it was asked for. */
void work_lose_opener(struct manager *manager);

/* Asks an opener that has connected for all that its predecessor was asked for, and for a scan:
 * which processes it has not answered for is not recorded. */
void work_ask_opener(struct manager *manager);

/* Tells a worker that has connected of all modules and processes. It watches none of them yet. */
void work_tell_worker(struct manager *manager);

/* Ends a scan: the opener has reported every process. */
void work_end_scan(struct manager *manager);

/* Starts the end: the manager stops as soon as no stack waits any more. */
void work_stop(struct manager *manager);

#endif
