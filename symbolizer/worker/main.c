/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer's worker takes samples from the BPF ring, names their frames, and sends batches of
 * records to the exporter. Messages are in handlers.c, the main loop's work is in turn.c. */
#include "common/exit_status.h"
#include "symbolizer/worker/handlers.h"
#include "symbolizer/worker/policy.h"
#include "symbolizer/worker/turn.h"
#include "symbolizer/worker/worker.h"

static bool worker_on_gone(void *context, enum role_id other)
{
	struct worker *worker = context;

	if (!worker->role.agent || other != ROLE_EXPORTER)
		return false;
	resend_buffer_disconnect(&worker->batch.resend);
	return true;
}

int main(int argc, char **argv)
{
	static struct worker worker;
	int status = role_start(&worker.role, ROLE_WORKER, &worker_policy, argc, argv);

	if (!status)
		status = role_meet(&worker.role, ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_OPENER),
				   ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_EXPORTER) |
				       ROLE_BIT(ROLE_CLI));
	worker_set_handlers(&worker);
	/* What its predecessor was working on when it ended must not be read. */
	if (!status)
		status = role_receive(&worker.role, ROLE_CLI);
	if (!status)
		status = role_enter_sandbox(&worker.role);
	if (status)
		return status;
	worker.role.on_gone = worker_on_gone;
	if (worker_init(&worker, worker.role.agent) < 0 || role_watch_peers(&worker.role) < 0)
		return STATUS_FAILED;
	loop_set_tick(&worker.role.loop, TURN_TICK_MS, turn_on_tick, &worker);
	return loop_run(&worker.role.loop);
}
