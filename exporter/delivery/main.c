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
		status = configure_open_files(&e);
	agent_set_handlers(&e);
	if (!status)
		status = role_meet(&e.role);
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
	e.started_boot_ns = clock_boot_ns();
	if (role_watch_peers(&e.role) < 0)
		return STATUS_FAILED;
	agent_start_ticks(&e);
	return loop_run(&e.role.loop);
}
