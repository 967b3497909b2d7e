/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's exporter verifies and aggregates the worker's batches, and sends them to a backend as
 * OTLP requests. handlers.c receives messages and other events; agent.h says how the parts depend
 * on each other. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "exporter/delivery/agent.h"
#include "exporter/delivery/delivery_limits.h"
#include "exporter/delivery/handlers.h"
#include "exporter/delivery/policy.h"

/* Informs the worker after which batch to continue. If the journal is empty although there were
 * batches, later batches would refer to unknown definitions, so the worker is asked to send all of
 * them again. Returns an exit status, after a message unless the worker has ended. */
static int agent_resume(struct otlp_exporter *e)
{
	const struct msg_resume resume = {.sequence = e->stats->received_sequence};
	struct peer *worker = &e->role.peers[ROLE_WORKER];

	int r = peer_send(worker, MESSAGE_RESUME, &resume, sizeof(resume), NULL, 0);
	if (!r && resume.sequence && !e->stats->journal_bytes)
		r = peer_send(worker, MESSAGE_RESET_REQUEST, NULL, 0, NULL, 0);
	if (r < 0 && r != -EPIPE)
		log_error("cannot ask the symbolizer to continue, so the exporter ends: error=%s",
			  strerror(-r));
	return r < 0 ? STATUS_FAILED : STATUS_DONE;
}

/* Reduces the stacks of all later threads: see DELIVERY_THREAD_STACK_BYTES. */
static void agent_size_threads(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, DELIVERY_THREAD_STACK_BYTES);
	pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
}

static void agent_seed(void)
{
	unsigned int seed = 0;

	/* The random numbers are only used for jitter. */
	if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
		srandom(seed);
}

int main(int argc, char **argv)
{
	static struct otlp_exporter e;
	int status = role_start(&e.role, ROLE_EXPORTER, &otlp_exporter_policy, argc, argv);

	for (int i = 0; i < MSG_OTLP_FD_COUNT; i++)
		e.fds[i] = -1;
	if (!status)
		status = role_meet(&e.role, ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_WORKER),
				   ROLE_BIT(ROLE_CLI));
	agent_set_handlers(&e);
	if (!status)
		status = configure_receive(&e);
	if (!status)
		status = role_enter_sandbox(&e.role);
	if (status)
		return status;
	agent_seed();
	agent_size_threads();
	int r = aggregate_init(&e.aggregate, LIMIT_INTERVAL_BYTES);
	if (r < 0) {
		log_error("cannot start an empty profile, so the exporter ends: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	e.aggregate.detailed = true;
	e.aggregate.profile.period_ns = e.config.period_ns;
	status = configure_start(&e);
	if (status)
		return status;
	e.started_unix_ns = clock_read_ns(CLOCK_REALTIME);
	if (role_watch_peers(&e.role) < 0)
		return STATUS_FAILED;
	status = agent_resume(&e);
	if (status)
		return status;
	agent_start_ticks(&e);
	return loop_run(&e.role.loop);
}
