/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred stacks that never arrive.
 *
 * How this works. The manager takes deferred stacks from a ring, keeps those whose tables do not
 * exist yet, and sends the others to the worker. A manager that is killed takes with it what it
 * kept, and a worker what was in its socket. So both count over all their processes: the manager
 * how many it has taken, in the table of processes, and the worker how many it has received, in its
 * control page. A manager tells the number of those that it does not have any more when it connects
 * to a worker, before it sends any. What the worker has not received of them is lost. It goes on
 * with its position as if it had taken them, and the exporter counts the gap between two batches at
 * once (`position` in schemas/records.fbs).
 *
 * Example: managers have taken 500 stacks, of which 17 wait when the last one is killed. The next
 * one tells 500. The worker has received 483, so the position of its next batch is 17 higher.
 */
#ifndef SYMBOLIZER_WORKER_DEFERRED_COUNT_H
#define SYMBOLIZER_WORKER_DEFERRED_COUNT_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

/* Before the control page is known. All zeros: nothing has come. */
struct deferred_count {
	uint64_t received;
	uint64_t told; /* by the manager, without those that were received before */
	bool is_told;
};

/* Counts a stack that the manager has sent. */
void deferred_count_received(struct worker *worker);

/* Takes what a manager tells: how many stacks it and those before it have taken, without those that
 * it still has. */
void deferred_count_told(struct worker *worker, uint64_t stacks);

/* Takes over the count of the last worker. The control page has been mapped. */
void deferred_count_resume(struct worker *worker);

#endif
