/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer's worker takes samples from the BPF ring, names their frames, and sends batches of
 * records to the exporter. Messages are in handlers.c, the main loop's work is in turn.c. */
#include "common/exit_status.h"
#include "symbolizer/worker/handlers.h"
#include "symbolizer/worker/policy.h"
#include "symbolizer/worker/turn.h"
#include "symbolizer/worker/worker.h"

int main(int argc, char **argv)
{
	static struct worker worker;
	int status = role_start(&worker.role, ROLE_WORKER, &worker_policy, argc, argv);

	worker_set_handlers(&worker);
	if (!status)
		status = role_meet(&worker.role);
	/* What its predecessor was working on when it ended must not be read. */
	if (!status)
		status = role_receive(&worker.role, ROLE_CONTROL);
	if (!status)
		status = role_enter_sandbox(&worker.role);
	if (status)
		return status;
	if (worker_init(&worker, worker.role.agent) < 0 || role_watch_peers(&worker.role) < 0)
		return STATUS_FAILED;
	loop_set_tick(&worker.role.loop, TURN_TICK_MS, turn_on_tick, &worker);
	status = loop_run(&worker.role.loop);
	process_reader_stop(&worker.reader);
	process_work_end(&worker.memory_work);
	return status;
}
