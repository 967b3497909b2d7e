/* SPDX-License-Identifier: Apache-2.0 */
#include "control/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "ipc/losses.h"
#include "role/service_manager.h"

enum {
	/* For stopping and draining, in addition to agent.drain_timeout, which limits the
	 * sending. */
	AGENT_FINISH_MS = 10000,
	/* Exporters that are killed before they are ready, in a row, until the data that the last
	 * one left is taken for the reason, and dropped. */
	MAX_FAILED_STARTS = 3,
};

/* --- configuration of the roles --- */

static int send_to(struct agent *agent, enum role_id role, enum message_type type,
		   const void *payload, size_t bytes)
{
	return peer_send(&agent->supervisor.roles.peers[role], type, payload, bytes, NULL, 0);
}

static int configure_loader(struct agent *agent)
{
	const struct msg_configure_loader config = {
	    .frequency_hz = (uint32_t)agent->config.frequency_hz,
	    .want_kernel = 1,
	    .want_user = 1,
	    .runtimes = (uint32_t)agent->config.runtimes,
	};

	return send_to(agent, ROLE_LOADER, MESSAGE_CONFIGURE_LOADER, &config, sizeof(config));
}

/* Adds the names in identity.environment_variables. The configuration has checked their number and
 * lengths. */
static void add_variables(const char *names, struct msg_configure_worker *config)
{
	while (*names && config->variable_count < LIMIT_IDENTITY_VARIABLES) {
		const size_t length = strcspn(names, ", ");

		if (length && length < sizeof(config->variables[0]))
			memcpy(config->variables[config->variable_count++], names, length);
		names += length + (names[length] != 0);
	}
}

static struct msg_configure_worker worker_config(const struct agent *agent)
{
	struct msg_configure_worker config = {
	    .want_identity = 1, .want_service_name = agent->config.process_service_name};

	add_variables(agent->config.environment_variables, &config);
	return config;
}

static int configure_worker(struct agent *agent)
{
	const struct msg_configure_worker config = worker_config(agent);

	return send_to(agent, ROLE_WORKER, MESSAGE_CONFIGURE_WORKER, &config, sizeof(config));
}

/* Allows the opener to hand out environments only if the configuration asks for something in them,
 * and memory only if it asks for a language runtime. */
static int configure_opener(struct agent *agent)
{
	const struct msg_configure_worker worker = worker_config(agent);
	const struct msg_configure_opener config = {.allow_environment = worker.want_service_name ||
									 worker.variable_count,
						    .allow_memory = agent->config.runtimes != 0};

	return peer_send(&agent->supervisor.roles.peers[ROLE_OPENER], MESSAGE_CONFIGURE_OPENER,
			 &config, sizeof(config), agent->debug_directories.fds,
			 agent->debug_directories.count);
}

/* Opens the directories of debug files. One that cannot be opened is left out. */
static void open_debug_directories(struct agent *agent)
{
	char paths[sizeof(agent->config.debug_directories)], *saved;

	memcpy(paths, agent->config.debug_directories, sizeof(paths));
	debug_directories_init(&agent->debug_directories);
	for (char *path = strtok_r(paths, ":", &saved); path; path = strtok_r(NULL, ":", &saved)) {
		const int e = debug_directories_add(&agent->debug_directories, path);

		if (e < 0)
			log_warning("cannot open a directory of symbols.directories; no debug "
				    "files are searched there: path=%s error=%s",
				    path, strerror(-e));
	}
}

static int on_configure(void *context, enum role_id role)
{
	struct agent *agent = context;

	switch (role) {
	case ROLE_LOADER:
		return configure_loader(agent);
	case ROLE_OPENER:
		return configure_opener(agent);
	case ROLE_WORKER:
		return configure_worker(agent);
	case ROLE_EXPORTER:
		return agent_export_configure(agent);
	default:
		return 0;
	}
}

/* Drops the journal if it probably is the reason that exporters crash or hang before they are
 * ready: each starts with the journal of the one before it. An exporter that ends by itself has
 * logged another reason, such as a certificate that it cannot use, and the journal is kept. How a
 * service has ended is not known here, so for services every end counts. */
static void drop_journal_that_fails(struct agent *agent)
{
	struct supervised_role *exporter = &agent->supervisor.role[ROLE_EXPORTER];
	struct export_stats *stats = agent->export.stats;

	if (exporter->failed_starts < MAX_FAILED_STARTS || !stats->journal_bytes)
		return;
	log_error("%d exporters in a row were killed before they were ready; dropping the samples "
		  "that were not sent yet: samples=%llu",
		  MAX_FAILED_STARTS, (unsigned long long)stats->interval_samples);
	stats->journal_bytes = 0;
	exporter->failed_starts = 0;
}

static void before_start(void *context, enum role_id role)
{
	struct agent *agent = context;

	if (role == ROLE_EXPORTER)
		drop_journal_that_fails(agent);
	if (role == ROLE_WORKER)
		agent_export_worker_ended(agent);
	agent_export_before_start(agent, role);
}

/* --- when to sample --- */

/* Decides for the next interval whether this host samples, and starts or stops the sampling. With
 * agent.probability = 25, each host samples during a quarter of the intervals. */
static void choose_sampling(struct agent *agent, uint64_t now)
{
	uint32_t random = 0;

	agent->probability_due_ns = now + agent->config.probability_interval_ns;
	if (agent->config.probability_percent < 100 &&
	    getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = 0;
	const bool sampling = random % 100 < agent->config.probability_percent;
	/* A loader that is just being started is told in on_return(). */
	if (sampling != agent->sampling && agent->supervisor.role[ROLE_LOADER].ready)
		supervisor_send(&agent->supervisor, ROLE_LOADER,
				sampling ? MESSAGE_START : MESSAGE_STOP);
	agent->sampling = sampling;
}

static void on_ready(void *context)
{
	struct agent *agent = context;
	const uint64_t now = clock_monotonic_ns();

	choose_sampling(agent, now);
	if (agent->sampling)
		sampling_pause_end(&agent->pause, now);
}

static void on_return(void *context, enum role_id role)
{
	struct agent *agent = context;

	if (role == ROLE_LOADER && agent->sampling)
		supervisor_send(&agent->supervisor, ROLE_LOADER, MESSAGE_START);
}

/* Without pins, all need the maps of the next loader. */
static void on_status(void *context, enum role_id from)
{
	struct agent *agent = context;

	if (from == ROLE_LOADER)
		agent->policy.on_end[ROLE_LOADER] = agent->supervisor.role[from].status.pinned
							? SUPERVISOR_RESTART_ONE
							: SUPERVISOR_RESTART_ALL;
}

static void on_restart_all(void *context)
{
	struct agent *agent = context;

	agent_export_roles_ended(agent, true);
	agent->sampling = false;
	agent->policy.on_end[ROLE_LOADER] = SUPERVISOR_RESTART_ALL;
}

static void on_wake(void *context, uint64_t now_ns)
{
	struct agent *agent = context;

	if (agent->supervisor.phase == SUPERVISOR_RUNNING) {
		if (now_ns >= agent->probability_due_ns)
			choose_sampling(agent, now_ns);
		sampling_pause_note(&agent->pause, now_ns, agent->sampling);
	}
	agent_notify(agent, now_ns);
}

static void on_signal(void *context)
{
	struct agent *agent = context;
	struct supervisor *s = &agent->supervisor;

	if (s->phase == SUPERVISOR_STOPPING || s->phase == SUPERVISOR_DRAINING) {
		log_warning("a second signal asked the agent to end; it ends without sending the "
			    "rest");
		loop_stop(&s->loop, STATUS_EXPORT);
		return;
	}
	agent_notify_stopping(agent);
	if (s->phase == SUPERVISOR_RUNNING) {
		sampling_pause_note(&agent->pause, clock_monotonic_ns(), agent->sampling);
		supervisor_begin_stop(s);
	} else {
		loop_stop(&s->loop, STATUS_DONE);
	}
}

/* --- start and end --- */

/* An agent prints no summary, so it refuses the lists for it. */
#define AGENT_HANDLERS(HANDLER, REFUSED)                                                           \
	HANDLER(STATUS, supervisor_on_status)                                                      \
	HANDLER(PONG, supervisor_on_pong)                                                          \
	HANDLER(LEAVE, supervisor_on_leave)                                                        \
	REFUSED(TOP_PROCESS)                                                                       \
	REFUSED(TOP_FUNCTION)                                                                      \
	REFUSED(UNNAMED_MODULE)
MESSAGE_HANDLERS(agent_handlers, CONTROL, AGENT_HANDLERS);

static void set_policy(struct agent *agent)
{
	struct supervisor_policy *policy = &agent->policy;

	*policy = (struct supervisor_policy){
	    .handlers = &agent_handlers,
	    .run_directory = agent->config.run_directory,
	    .pin_directory = agent->config.pin_directory[0] ? agent->config.pin_directory : NULL,
	    .strict_memory = agent->config.strict_memory,
	    .watchdog_ns = agent->config.watchdog_ns,
	    .finish_timeout_ns = AGENT_FINISH_MS * 1000000ull + agent->config.drain_timeout_ns,
	    .before_start = before_start,
	    .configure = on_configure,
	    .on_ready = on_ready,
	    .on_return = on_return,
	    .on_status = on_status,
	    .on_restart_all = on_restart_all,
	    .on_signal = on_signal,
	    .on_wake = on_wake,
	};
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		policy->on_end[role] = SUPERVISOR_RESTART_ONE;
	policy->on_end[ROLE_LOADER] = SUPERVISOR_RESTART_ALL; /* see on_status() */
}

void agent_clear(struct agent *agent)
{
	agent->status_fd = -1;
	agent->notify_fd = service_manager_open();
	agent->started_boot_ns = clock_boot_ns();
	for (int i = 0; i < MSG_OTLP_FD_COUNT; i++)
		agent->export.fds[i] = -1;
	supervisor_clear(&agent->supervisor);
}

int agent_open(struct agent *agent)
{
	set_policy(agent);
	open_debug_directories(agent);
	sampling_pause_open(&agent->pause, agent->notify_fd);
	int status = supervisor_init(&agent->supervisor, &agent->policy, agent);
	if (!status)
		status = agent_export_open(agent);
	if (!status)
		status = agent_status_open(agent);
	return status;
}

int agent_run(struct agent *agent)
{
	const int status = supervisor_start(&agent->supervisor);

	return status ? status : supervisor_run(&agent->supervisor);
}

/* Logs where all samples are: taken + spooled_at_start = delivered + waiting + lost. */
static void log_account(const struct export_stats *stats)
{
	const uint64_t lost = losses_total(&stats->lost) + losses_total(&stats->lost_before);

	log_info("the agent ended: taken=%llu spooled_at_start=%llu delivered=%llu waiting=%llu "
		 "lost=%llu",
		 (unsigned long long)stats->taken_before,
		 (unsigned long long)stats->spooled_at_start, (unsigned long long)stats->delivered,
		 (unsigned long long)stats->waiting, (unsigned long long)lost);
}

int agent_finish(struct agent *agent, int status)
{
	const struct export_stats *stats = agent->export.stats;

	supervisor_stop(&agent->supervisor);
	agent_status_close(agent);
	sampling_pause_close(&agent->pause);
	if (!stats)
		return status;
	agent_export_roles_ended(agent, agent->supervisor.phase != SUPERVISOR_DONE);
	agent_export_reconcile(agent);
	agent_export_end(agent);
	if (agent->supervisor.was_running)
		log_account(stats);
	if (stats->waiting)
		log_warning("not all samples were sent; the rest waits in the spool for the next "
			    "start: samples=%llu path=%s",
			    (unsigned long long)stats->waiting, agent->config.spool_directory);
	if (stats->lost.lost[LOSS_NOT_KEPT])
		log_error("samples that waited in memory are lost, because the agent ended; set "
			  "spool.directory to keep such samples: samples=%llu",
			  (unsigned long long)stats->lost.lost[LOSS_NOT_KEPT]);
	if (!status && (stats->waiting || stats->lost.lost[LOSS_NOT_KEPT]))
		status = STATUS_EXPORT;
	return status;
}
