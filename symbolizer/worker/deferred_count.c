/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see deferred_count.h. */
#include "symbolizer/worker/deferred_count.h"

#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"

void deferred_count_received(struct worker *worker)
{
	if (worker->control)
		worker->control->deferred_received++;
	else
		worker->deferred.received++;
}

/* Makes all stacks received that a manager has told of. */
static void make_up_for(struct worker *worker, uint64_t told)
{
	const uint64_t received = worker->control->deferred_received;

	/* A manager that is killed after it has sent a stack, and before it has counted it, leaves
	 * a number that is too low. */
	if (told > received)
		worker->batch.sent_samples += told - received;
	worker->control->deferred_received = told;
	samples_set_position(worker);
}

void deferred_count_told(struct worker *worker, uint64_t stacks)
{
	if (worker->control) {
		make_up_for(worker, stacks);
		return;
	}
	worker->deferred.told = stacks - worker->deferred.received;
	worker->deferred.is_told = true;
}

void deferred_count_resume(struct worker *worker)
{
	if (worker->deferred.is_told)
		make_up_for(worker, worker->deferred.told);
	worker->control->deferred_received += worker->deferred.received;
}
