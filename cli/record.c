/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead record`: checks the machine, opens the outputs, runs the roles under the supervisor,
 * and reports how it went.
 *
 * If the manager, the opener or the worker ends, it is started again, and the recording goes on.
 * What cannot be replaced are the loader, which owns the BPF programs, and the exporter, which
 * holds the profile: when they end, and while the roles start, all end together.
 */
#include "cli/record.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "control/debug_directories.h"
#include "cli/few_samples.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/preflight.h"
#include "cli/summary.h"
#include "control/supervisor.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "ipc/losses.h"

enum {
	/* Deferred stacks and symbols of a busy machine take seconds; a minute means that a role
	 * is stuck. */
	FINISH_TIMEOUT_S = 60,
	WATCHDOG_S = 10, /* as agent.watchdog by default */
	PROGRESS_MS = 1000,
};

struct recording {
	struct record_options options;
	struct debug_directories debug_directories;
	struct supervisor supervisor;
	struct supervisor_policy policy;
	struct command command;
	struct recording_stats stats;
	struct few_samples few_samples;
	uint64_t started_ns; /* when the loader began to sample; 0: it has not yet */
	bool terminal, interrupted;
};

/* --- configuration --- */

static int configure_loader(struct recording *r)
{
	const struct record_options *o = &r->options;
	struct msg_configure_loader config = {
	    .frequency_hz = o->frequency_hz,
	    .tid = o->tid,
	    .want_kernel = !o->user_only,
	    .want_user = !o->kernel_only,
	    .target_count = o->pid_count,
	    .cgroup_id = o->cgroup_id,
	    .cgroup_level = o->cgroup_level,
	    .runtimes = o->runtimes,
	};

	memcpy(config.targets, o->pids, sizeof(config.targets));
	if (o->comm)
		memcpy(config.comm, o->comm, strlen(o->comm));
	if (r->command.pid) {
		config.target_count = 1;
		config.targets[0] = (uint32_t)r->command.pid;
		config.follow_forks = 1;
	}
	return peer_send(&r->supervisor.roles.peers[ROLE_LOADER], MESSAGE_CONFIGURE_LOADER, &config,
			 sizeof(config), NULL, 0);
}

static int configure_exporter(struct recording *r)
{
	const struct record_options *o = &r->options;
	struct msg_configure_exporter config = {.period_ns = 1000000000u / o->frequency_hz,
						.output_count = o->output_count,
						.group_by = o->group_by,
						.lines = o->lines,
						.without_inlined = o->without_inlined};
	int fds[LIMIT_OUTPUTS];

	for (unsigned int i = 0; i < o->output_count; i++) {
		fds[i] = o->outputs[i].fd;
		snprintf(config.formats[i], sizeof(config.formats[i]), "%s", o->outputs[i].format);
	}
	return peer_send(&r->supervisor.roles.peers[ROLE_EXPORTER], MESSAGE_CONFIGURE_EXPORTER,
			 &config, sizeof(config), fds, o->output_count);
}

/* Has containers looked up only if an output can show them: otlp is the only such format. */
static int configure_worker(struct recording *r)
{
	const struct record_options *o = &r->options;
	struct msg_configure_worker config = {0};

	for (unsigned int i = 0; i < o->output_count; i++)
		config.want_identity |= !strcmp(o->outputs[i].format, "otlp");
	return peer_send(&r->supervisor.roles.peers[ROLE_WORKER], MESSAGE_CONFIGURE_WORKER, &config,
			 sizeof(config), NULL, 0);
}

/* Without language runtimes nobody's memory is needed. */
static int configure_opener(struct recording *r)
{
	const struct msg_configure_opener config = {.allow_memory = r->options.runtimes != 0};

	return peer_send(&r->supervisor.roles.peers[ROLE_OPENER], MESSAGE_CONFIGURE_OPENER, &config,
			 sizeof(config), r->debug_directories.fds, r->debug_directories.count);
}

/* Opens the directories of debug files. Returns an exit status. */
static int open_debug_directories(struct recording *r)
{
	const struct record_options *o = &r->options;

	debug_directories_init(&r->debug_directories);
	for (unsigned int i = 0; i < o->debug_directory_count; i++) {
		const int e = debug_directories_add(&r->debug_directories, o->debug_directories[i]);

		if (e < 0) {
			fprintf(stderr,
				"bulkhead record: --debug-dir: cannot open the directory: %s: %s\n",
				o->debug_directories[i], strerror(-e));
			return STATUS_USAGE;
		}
	}
	return STATUS_DONE;
}

/* --- what the supervisor asks for --- */

static int on_configure(void *context, enum role_id role)
{
	struct recording *r = context;

	switch (role) {
	case ROLE_LOADER:
		return configure_loader(r);
	case ROLE_OPENER:
		return configure_opener(r);
	case ROLE_WORKER:
		return configure_worker(r);
	case ROLE_EXPORTER:
		return configure_exporter(r);
	default:
		return 0;
	}
}

static void on_ready(void *context)
{
	struct recording *r = context;

	static const enum role_id replaced[] = {ROLE_MANAGER, ROLE_OPENER, ROLE_WORKER};

	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
		r->policy.on_end[replaced[i]] = SUPERVISOR_RESTART_ONE;
	outputs_truncate(&r->options);
	supervisor_send(&r->supervisor, ROLE_EXPORTER, MESSAGE_START);
	supervisor_send(&r->supervisor, ROLE_LOADER, MESSAGE_START);
}

/* The loader may load the program of a runtime before it starts to sample, which takes hundreds of
 * milliseconds on a busy machine. That is not part of the time for which was recorded. */
static void on_sampling(struct recording *r)
{
	r->started_ns = clock_monotonic_ns();
	few_samples_start(&r->few_samples, &r->options);
	/* The command is executed when its samples will be taken, and not before. */
	if (r->command.start_pipe > 0) {
		command_start(&r->command);
		command_abandon(&r->command);
	}
}

static uint64_t recorded_ns(const struct recording *r)
{
	return r->started_ns ? clock_monotonic_ns() - r->started_ns : 0;
}

static void stop_sampling(struct recording *r)
{
	if (r->supervisor.phase != SUPERVISOR_RUNNING)
		return;
	r->stats.duration_ns = recorded_ns(r);
	supervisor_begin_stop(&r->supervisor);
	supervisor_send(&r->supervisor, ROLE_EXPORTER, MESSAGE_STOP);
}

static void on_status(void *context, enum role_id from)
{
	struct recording *r = context;
	const struct msg_status *status = &r->supervisor.role[from].status;

	r->stats.status[from] = *status;
	if (from == ROLE_LOADER && status->state == ROLE_SAMPLING && !r->started_ns &&
	    r->supervisor.phase == SUPERVISOR_RUNNING)
		on_sampling(r);
}

static int on_top_process(void *context, const struct msg_top_process *process)
{
	struct supervisor_watch *watch = context;
	struct recording *r = watch->supervisor->context;
	struct recording_stats *stats = &r->stats;

	if (stats->top_process_count < TOP_PROCESSES_MAX)
		stats->top_processes[stats->top_process_count++] = *process;
	return 0;
}

static int on_unnamed_module(void *context, const struct msg_unnamed_module *module)
{
	struct supervisor_watch *watch = context;
	struct recording *r = watch->supervisor->context;

	debug_hint_add(r->stats.unnamed_modules, &r->stats.unnamed_module_count, module);
	return 0;
}

static int on_top_function(void *context, const struct msg_top_function *function)
{
	struct supervisor_watch *watch = context;
	struct recording *r = watch->supervisor->context;
	struct recording_stats *stats = &r->stats;

	if (stats->top_function_count < TOP_FUNCTIONS_MAX)
		stats->top_functions[stats->top_function_count++] = *function;
	return 0;
}

#define RECORD_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(STATUS, supervisor_on_status)                                                      \
	HANDLER(PONG, supervisor_on_pong)                                                          \
	HANDLER(TOP_PROCESS, on_top_process)                                                       \
	HANDLER(UNNAMED_MODULE, on_unnamed_module)                                                 \
	HANDLER(TOP_FUNCTION, on_top_function)                                                     \
	REFUSED(LEAVE)
MESSAGE_HANDLERS(record_handlers, CONTROL, RECORD_HANDLERS);

/* Handles Ctrl-C. The first one ends the sampling; a second one, or one before the sampling, ends
 * everything. */
static void on_signal(void *context)
{
	struct recording *r = context;

	if (r->supervisor.phase == SUPERVISOR_STARTING)
		fprintf(stderr, "bulkhead: interrupted before sampling started; nothing was "
				"recorded\n");
	else if (r->interrupted)
		fprintf(stderr,
			"bulkhead: interrupted twice; the outputs are empty or incomplete\n");
	if (r->interrupted || r->supervisor.phase == SUPERVISOR_STARTING)
		loop_stop(&r->supervisor.loop, STATUS_FAILED);
	r->interrupted = true;
	stop_sampling(r);
}

/* Stops the sampling when the time of -d is over. This does not wait for the next regular tick. */
static void check_duration(struct recording *r)
{
	const uint64_t wanted_ns = r->options.duration_ns;

	if (r->supervisor.phase != SUPERVISOR_RUNNING)
		return;
	r->stats.duration_ns = recorded_ns(r);
	if (!wanted_ns || !r->started_ns)
		return;
	if (r->stats.duration_ns >= wanted_ns) {
		stop_sampling(r);
		return;
	}
	const uint64_t left_ms = (wanted_ns - r->stats.duration_ns) / 1000000 + 1;
	if (left_ms < PROGRESS_MS)
		loop_tick_within(&r->supervisor.loop, (int)left_ms);
}

static void on_wake(void *context, uint64_t now_ns)
{
	struct recording *r = context;

	(void)now_ns;
	if (command_ended(&r->command))
		stop_sampling(r);
	check_duration(r);
	if (r->terminal && r->supervisor.phase >= SUPERVISOR_RUNNING)
		summary_print_progress(&r->stats);
}

/* --- the end --- */

static int check_result(struct recording *r)
{
	const struct msg_status *exporter = &r->stats.status[ROLE_EXPORTER];
	struct msg_losses losses;

	if (exporter->output_failed) {
		const unsigned int i =
		    exporter->failed_index < r->options.output_count ? exporter->failed_index : 0;

		fprintf(stderr,
			"bulkhead: cannot write %s: %s; the file is missing or incomplete\n",
			r->options.outputs[i].path, strerror((int)exporter->output_failed));
		return STATUS_FAILED;
	}
	summary_losses(&r->stats, &losses);
	if (r->options.max_loss >= 0 &&
	    (double)losses_total(&losses) >
		r->options.max_loss * (double)r->stats.status[ROLE_LOADER].taken) {
		fprintf(stderr,
			"bulkhead: more samples were lost than --max-loss allows; the reasons "
			"follow\n");
		return STATUS_LOSS;
	}
	return r->options.command ? r->command.status : STATUS_DONE;
}

static void explain_few_samples(const struct recording *r)
{
	const struct few_samples_facts facts = few_samples_collect(
	    &r->few_samples, &r->options, r->stats.status[ROLE_LOADER].taken, r->stats.duration_ns);
	char text[FEW_SAMPLES_TEXT_BYTES];

	if (few_samples_explain(&facts, text))
		fprintf(stderr, "few samples: %s\n", text);
}

static int report_result(struct recording *r)
{
	const int status = check_result(r);

	summary_print(&r->options, &r->stats);
	explain_few_samples(r);
	if (r->options.stats_fd >= 0) {
		int e = summary_write_stats(r->options.stats_fd, &r->stats, &r->supervisor.roles);

		if (e < 0) {
			fprintf(stderr,
				"bulkhead: cannot write %s: %s; the statistics are incomplete\n",
				r->options.stats_path, strerror(-e));
			return STATUS_FAILED;
		}
	}
	return status;
}

static int run(struct recording *r)
{
	r->policy = (struct supervisor_policy){
	    .strict_memory = r->options.strict_memory,
	    .watchdog_ns = WATCHDOG_S * 1000000000ull,
	    .finish_timeout_ns = FINISH_TIMEOUT_S * 1000000000ull,
	    .configure = on_configure,
	    .on_ready = on_ready,
	    .on_status = on_status,
	    .handlers = &record_handlers,
	    .on_signal = on_signal,
	    .on_wake = on_wake,
	};

	/* on_end is SUPERVISOR_END_ALL, which is 0, for every role, until all are ready. */
	int status = supervisor_init(&r->supervisor, &r->policy, r);
	if (!status && r->options.command && command_prepare(&r->command, r->options.command) < 0)
		status = STATUS_FAILED;
	r->supervisor.roles.command = r->command.pid;
	if (!status)
		status = supervisor_start(&r->supervisor);
	return status ? status : supervisor_run(&r->supervisor);
}

static int check_before_start(struct recording *r)
{
	const struct check_wants wants = {.strict_memory = r->options.strict_memory,
					  .frequency_hz = r->options.frequency_hz,
					  .runtimes =
					      r->options.kernel_only ? 0 : r->options.runtimes};

	return preflight_check(&wants, &r->options);
}

int record_main(int argc, char **argv)
{
	static struct recording r;

	int status = options_parse_record(argc, argv, &r.options);
	if (status)
		return status < 0 ? STATUS_DONE : status;
	status = open_debug_directories(&r);
	if (!status)
		status = check_before_start(&r);
	if (!status)
		status = outputs_open(&r.options);
	if (status) {
		outputs_remove_created(&r.options);
		return status;
	}
	r.terminal = isatty(STDERR_FILENO);
	supervisor_clear(&r.supervisor);
	status = run(&r);
	if (r.terminal)
		summary_clear_progress();
	const bool done = r.supervisor.phase == SUPERVISOR_DONE;
	if (done)
		roles_measure(&r.supervisor.roles);
	command_abandon(&r.command);
	supervisor_stop(&r.supervisor);
	if (done)
		return report_result(&r);
	outputs_remove_created(&r.options);
	return status ? status : STATUS_FAILED;
}
