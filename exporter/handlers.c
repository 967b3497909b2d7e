/* SPDX-License-Identifier: Apache-2.0 */
/* One handler for each message to the exporter of a recording. ipc/messages.def says who sends a
 * message and when. */
#include "exporter/handlers.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "exporter/exporter.h"
#include "exporter/result.h"
#include "ipc/losses.h"

enum {
	EXPORTER_TICK_MS = 1000
};

static void exporter_send_status(struct exporter *exporter)
{
	const struct aggregate *a = &exporter->aggregate;
	struct msg_status status = {
	    .exported = a->exported,
	    .processes = a->profile.processes_count - 1,
	    .frames = a->frames_total,
	    .frames_named = a->frames_named,
	    .stacks = a->profile.stacks_count - 1,
	    .losses = a->losses,
	    .outputs_written = exporter->outputs_written,
	    .output_failed = exporter->output_failed,
	    .failed_index = exporter->failed_index,
	};

	status.losses.lost[LOSS_RING_FULL] =
	    counters_sum(&exporter->counters, MSG_COUNTER_LOST_RING_FULL);
	memcpy(status.incomplete, a->incomplete, sizeof(status.incomplete));
	role_send_status(&exporter->role, &status);
}

/* Ends the recording when the worker has sent its last batch and the CLI has said how long the
 * recording was. The two messages come over different sockets, in any order. */
static void exporter_finish(struct exporter *exporter)
{
	if (!exporter->ended || exporter->role.state != ROLE_STOPPING)
		return;
	aggregate_set_real_time(&exporter->aggregate, exporter->started_ns, exporter->duration_ns);
	result_write_outputs(exporter);
	result_send_summary(exporter);
	exporter->role.state = ROLE_DONE;
	exporter_send_status(exporter);
}

/* Reports that the exporter is ready when it has its configuration, which comes from the CLI, and
 * the counters, which come from the loader. They come in any order. */
static void exporter_check_ready(struct exporter *exporter)
{
	if (exporter->role.state != ROLE_CONFIGURED || !exporter->counters.by_cpu)
		return;
	exporter->role.state = ROLE_READY;
	exporter_send_status(exporter);
}

static int exporter_on_configure(void *context, const struct msg_configure_exporter *config,
				 struct message *message)
{
	struct exporter *exporter = context;

	exporter->config = *config;
	if (exporter->config.output_count > LIMIT_OUTPUTS ||
	    exporter->config.output_count != message->fd_count ||
	    exporter->config.group_by >= GROUP_BY_COUNT || config->lines > 1 ||
	    config->without_inlined > 1)
		return -EPROTO;
	for (uint32_t i = 0; i < exporter->config.output_count; i++) {
		exporter->outputs[i] = message->fds[i];
		exporter->config.formats[i][sizeof(exporter->config.formats[i]) - 1] = 0;
		exporter->aggregate.detailed |= !strcmp(exporter->config.formats[i], "otlp");
	}
	message->fd_count = 0;
	exporter->sink_options.group_by = (enum group_by)config->group_by;
	exporter->sink_options.lines = config->lines;
	exporter->aggregate.profile.without_inlined = config->without_inlined;
	exporter->aggregate.profile.period_ns = exporter->config.period_ns;
	exporter->role.state = ROLE_CONFIGURED;
	exporter_check_ready(exporter);
	return 0;
}

static int exporter_on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct exporter *exporter = context;
	int r = counters_map(&exporter->counters, maps, message->fds[0]);

	if (!r)
		exporter_check_ready(exporter);
	return r;
}

static int exporter_on_start(void *context)
{
	struct exporter *exporter = context;

	exporter->started_ns = clock_monotonic_ns();
	exporter->role.state = ROLE_SAMPLING;
	return 0;
}

static int exporter_on_stop(void *context)
{
	struct exporter *exporter = context;

	exporter->duration_ns = clock_monotonic_ns() - exporter->started_ns;
	exporter->role.state = ROLE_STOPPING;
	exporter_finish(exporter);
	return 0;
}

static int exporter_on_batch(void *context, const void *payload, size_t length)
{
	struct exporter *exporter = context;

	return aggregate_batch(&exporter->aggregate, payload, length);
}

static int exporter_on_end(void *context, const struct msg_losses *losses)
{
	struct exporter *exporter = context;

	losses_add(&exporter->aggregate.losses, losses);
	exporter->ended = true;
	exporter_finish(exporter);
	return 0;
}

/* The messages refused here are for the agent's exporter (exporter/delivery/handlers.c). */
#define EXPORTER_HANDLERS(HANDLER, REFUSED)                                                        \
	HANDLER(CONFIGURE_EXPORTER, exporter_on_configure)                                         \
	REFUSED(CONFIGURE_OTLP)                                                                    \
	HANDLER(EXPORTER_MAPS, exporter_on_maps)                                                   \
	HANDLER(START, exporter_on_start)                                                          \
	HANDLER(STOP, exporter_on_stop)                                                            \
	HANDLER(BATCH, exporter_on_batch)                                                          \
	HANDLER(END, exporter_on_end)
MESSAGE_HANDLERS(exporter_handlers, EXPORTER, EXPORTER_HANDLERS);

static void exporter_on_tick(void *context, uint32_t events)
{
	struct exporter *exporter = context;

	(void)events;
	if (exporter->role.state >= ROLE_READY && exporter->role.state < ROLE_DONE)
		exporter_send_status(exporter);
}

/* The worker may be started again, and then assigns ids from the beginning. What it has sent stays
 * in the profile. */
static bool exporter_on_gone(void *context, enum role_id other, bool ended)
{
	(void)context;
	return other == ROLE_WORKER && ended;
}

void exporter_set_handlers(struct exporter *exporter)
{
	exporter->role.on_gone = exporter_on_gone;
	exporter->role.handlers = &exporter_handlers;
	exporter->role.context = exporter;
}

void exporter_start_ticks(struct exporter *exporter)
{
	loop_set_tick(&exporter->role.loop, EXPORTER_TICK_MS, exporter_on_tick, exporter);
}
