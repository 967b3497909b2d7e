/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter: verified records in, a profile out, in as many formats as there are outputs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "exporter/model/aggregate.h"
#include "exporter/convert.h"
#include "exporter/model/counters.h"
#include "exporter/model/top_functions.h"
#include "exporter/policy.h"
#include "exporter/sinks/sink.h"
#include "role/role.h"

enum {
	EXPORTER_TICK_MS = 1000,
	EXPORTER_HOT_FUNCTIONS = 10
};

struct exporter {
	struct role role;
	struct msg_configure_exporter config;
	int outputs[LIMIT_OUTPUTS];
	struct counters counters;
	struct aggregate aggregate;
	struct sink_options sink_options;
	uint64_t started_ns;
	bool ended;
	uint32_t outputs_written, output_failed, failed_index;
};

static void exporter_send_status(struct exporter *exporter, enum role_state state)
{
	const struct aggregate *a = &exporter->aggregate;
	struct msg_status status = {
	    .state = state,
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

/* Sets the grouping that the CLI asked for; false if there is no such grouping. */
static bool set_grouping(struct sink_options *options, uint32_t group_by)
{
	switch (group_by) {
	case GROUP_BY_NAME:
		options->root = FOLDED_PROCESS_NAME;
		return true;
	case GROUP_BY_PID:
		options->root = FOLDED_PROCESS_NAME_PID;
		return true;
	case GROUP_BY_THREAD:
		options->root = FOLDED_THREAD_NAME;
		return true;
	default:
		return false;
	}
}

static int on_configure(struct exporter *exporter, struct message *message)
{
	memcpy(&exporter->config, message->payload, sizeof(exporter->config));
	if (exporter->config.output_count > LIMIT_OUTPUTS ||
	    exporter->config.output_count != message->fd_count ||
	    !set_grouping(&exporter->sink_options, exporter->config.group_by))
		return -EPROTO;
	for (uint32_t i = 0; i < exporter->config.output_count; i++) {
		exporter->outputs[i] = message->fds[i];
		exporter->config.formats[i][sizeof(exporter->config.formats[i]) - 1] = 0;
		exporter->aggregate.detailed |= !strcmp(exporter->config.formats[i], "otlp");
	}
	message->fd_count = 0;
	exporter->aggregate.profile.period_ns = exporter->config.period_ns;
	return 0;
}

static int on_maps(struct exporter *exporter, const struct message *message)
{
	int r = counters_map(&exporter->counters, message);

	if (!r)
		exporter_send_status(exporter, ROLE_READY);
	return r;
}

static int write_output(struct exporter *exporter, uint32_t index)
{
	const struct sink *sink = sink_find(exporter->config.formats[index]);
	FILE *out = sink ? fdopen(exporter->outputs[index], "w") : NULL;

	if (!out)
		return sink ? -errno : -EINVAL;
	int r = sink->write(&exporter->aggregate.profile, &exporter->sink_options, out);
	if (fclose(out) != 0 && !r)
		r = -errno;
	return r;
}

static void exporter_write(struct exporter *exporter)
{
	for (uint32_t i = 0; i < exporter->config.output_count; i++) {
		int r = write_output(exporter, i);

		if (!r) {
			exporter->outputs_written++;
		} else if (!exporter->output_failed) {
			exporter->output_failed = (uint32_t)-r;
			exporter->failed_index = i;
		}
	}
}

static void exporter_send_hot(struct exporter *exporter)
{
	struct msg_hot_function hot[EXPORTER_HOT_FUNCTIONS];
	unsigned int count =
	    top_functions_find(&exporter->aggregate.profile, hot, EXPORTER_HOT_FUNCTIONS);

	for (unsigned int i = 0; i < count; i++)
		peer_send(&exporter->role.peers[ROLE_CLI], MESSAGE_HOT_FUNCTION, &hot[i],
			  sizeof(hot[i]), NULL, 0);
}

static void on_end(struct exporter *exporter, const struct message *message)
{
	struct msg_losses losses;

	if (exporter->ended)
		return;
	exporter->ended = true;
	memcpy(&losses, message->payload, sizeof(losses));
	for (int i = 0; i < LOSS_COUNT; i++)
		exporter->aggregate.losses.lost[i] += losses.lost[i];
	exporter_write(exporter);
	exporter_send_hot(exporter);
	exporter_send_status(exporter, ROLE_DONE);
}

static void on_start(struct exporter *exporter)
{
	exporter->started_ns = clock_monotonic_ns();
	exporter->aggregate.profile.start_unix_ns = clock_read_ns(CLOCK_REALTIME);
}

static void on_stop(struct exporter *exporter)
{
	exporter->aggregate.profile.duration_ns = clock_monotonic_ns() - exporter->started_ns;
}

static int exporter_dispatch(struct exporter *exporter, struct message *message)
{
	switch (message->type) {
	case MESSAGE_CONFIGURE_EXPORTER:
		return on_configure(exporter, message);
	case MESSAGE_EXPORTER_MAPS:
		return on_maps(exporter, message);
	case MESSAGE_START:
		on_start(exporter);
		return 0;
	case MESSAGE_STOP:
		on_stop(exporter);
		return 0;
	case MESSAGE_BATCH:
		return aggregate_batch(&exporter->aggregate, message->payload, message->length);
	case MESSAGE_END:
		on_end(exporter, message);
		return 0;
	default:
		return 0;
	}
}

static int exporter_on_message(void *context, enum role_id from, struct message *message)
{
	(void)from;
	int r = exporter_dispatch(context, message);
	message_close(message);
	return r;
}

static void exporter_on_tick(void *context, uint32_t events)
{
	struct exporter *exporter = context;

	(void)events;
	if (!exporter->ended && exporter->counters.by_cpu)
		exporter_send_status(exporter, ROLE_SAMPLING);
}

int main(int argc, char **argv)
{
	static struct exporter exporter;

	if (argc > 1 && !strcmp(argv[1], "--convert"))
		return convert_main(argc, argv);
	int status = role_start(&exporter.role, ROLE_EXPORTER, &exporter_policy, argc, argv);
	if (!status)
		status = role_meet(&exporter.role, ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_WORKER),
				   ROLE_BIT(ROLE_CLI));
	if (!status)
		status = role_enter_sandbox(&exporter.role);
	if (status)
		return status;
	if (aggregate_init(&exporter.aggregate, LIMIT_PROFILE_BYTES) < 0 ||
	    role_watch_peers(&exporter.role, exporter_on_message, &exporter) < 0)
		return STATUS_FAILED;
	loop_set_tick(&exporter.role.loop, EXPORTER_TICK_MS, exporter_on_tick, &exporter);
	return loop_run(&exporter.role.loop);
}
