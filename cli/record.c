/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording from the CLI's side: check, open outputs, start the roles, start and stop the
 * sampling, tell how it went. From the roles it takes fixed-size status records and nothing else.
 */
#include "cli/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/few_samples.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/preflight.h"
#include "cli/roles.h"
#include "cli/signals.h"
#include "cli/summary.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"

enum {
	RECORD_TICK_MS = 1000,
	RECORD_READY_MS = 60000, /* loading the programs under emulation takes its time */
	RECORD_DRAIN_MS = 60000,
};

enum record_phase {
	PHASE_STARTING,
	PHASE_SAMPLING,
	PHASE_STOPPING,
	PHASE_DRAINING,
	PHASE_DONE
};

struct recording {
	struct record_options options;
	struct roles roles;
	struct command command;
	struct loop loop;
	struct recording_figures figures;
	struct few_samples few_samples;
	struct message_buffer buffer;
	enum record_phase phase;
	uint64_t phase_since_ns, started_ns;
	uint32_t ready; /* roles that are */
	bool terminal, interrupted;
	int signal_fd;
};

static void record_set_phase(struct recording *r, enum record_phase phase)
{
	r->phase = phase;
	r->phase_since_ns = clock_monotonic_ns();
}

static void record_fail(struct recording *r, int status)
{
	loop_stop(&r->loop, status);
}

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
	return peer_send(&r->roles.peers[ROLE_LOADER], MESSAGE_CONFIGURE_LOADER, &config,
			 sizeof(config), NULL, 0) < 0
		   ? STATUS_FAILED
		   : STATUS_DONE;
}

static int configure_exporter(struct recording *r)
{
	const struct record_options *o = &r->options;
	struct msg_configure_exporter config = {.period_ns = 1000000000u / o->frequency_hz,
						.output_count = o->output_count,
						.group_by = o->group_by};
	int fds[LIMIT_OUTPUTS];

	for (unsigned int i = 0; i < o->output_count; i++) {
		fds[i] = o->outputs[i].fd;
		snprintf(config.formats[i], sizeof(config.formats[i]), "%s", o->outputs[i].format);
	}
	return peer_send(&r->roles.peers[ROLE_EXPORTER], MESSAGE_CONFIGURE_EXPORTER, &config,
			 sizeof(config), fds, o->output_count) < 0
		   ? STATUS_FAILED
		   : STATUS_DONE;
}

/* Containers are of use only where the output can tell of them. */
static int configure_worker(struct recording *r)
{
	const struct record_options *o = &r->options;
	struct msg_configure_worker config = {0};

	for (unsigned int i = 0; i < o->output_count; i++)
		config.want_identity |= !strcmp(o->outputs[i].format, "otlp");
	return peer_send(&r->roles.peers[ROLE_WORKER], MESSAGE_CONFIGURE_WORKER, &config,
			 sizeof(config), NULL, 0) < 0
		   ? STATUS_FAILED
		   : STATUS_DONE;
}

static void record_send(struct recording *r, enum role_id role, enum message_type type)
{
	peer_send(&r->roles.peers[role], type, NULL, 0, NULL, 0);
}

/* All roles are ready. */
static void record_start_sampling(struct recording *r)
{
	roles_remove_run_dir(&r->roles);
	outputs_truncate(&r->options);
	few_samples_start(&r->few_samples, &r->options);
	record_send(r, ROLE_EXPORTER, MESSAGE_START);
	record_send(r, ROLE_LOADER, MESSAGE_START);
	r->started_ns = clock_monotonic_ns();
	record_set_phase(r, PHASE_SAMPLING);
	loop_tick_within(&r->loop, 0);
}

static void record_stop_sampling(struct recording *r)
{
	if (r->phase != PHASE_SAMPLING)
		return;
	r->figures.duration_ns = clock_monotonic_ns() - r->started_ns;
	record_send(r, ROLE_LOADER, MESSAGE_STOP);
	record_send(r, ROLE_EXPORTER, MESSAGE_STOP);
	record_set_phase(r, PHASE_STOPPING);
}

static void record_on_status(struct recording *r, enum role_id from,
			     const struct msg_status *status)
{
	r->figures.status[from] = *status;
	if (r->phase == PHASE_STARTING && status->state >= ROLE_READY) {
		r->ready |= ROLE_BIT(from);
		if (r->ready == (ROLE_BIT(ROLE_COUNT) - 1u - ROLE_BIT(ROLE_CLI)))
			record_start_sampling(r);
	}
	/* The command starts when its samples will be taken. */
	if (from == ROLE_LOADER && status->state == ROLE_SAMPLING && r->command.gate > 0) {
		command_start(&r->command);
		command_abandon(&r->command);
	}
	if (r->phase == PHASE_STOPPING && from == ROLE_LOADER && status->state == ROLE_STOPPED) {
		record_send(r, ROLE_MANAGER, MESSAGE_STOP);
		record_send(r, ROLE_WORKER, MESSAGE_STOP);
		record_set_phase(r, PHASE_DRAINING);
	}
	if (from == ROLE_EXPORTER && status->state == ROLE_DONE) {
		record_set_phase(r, PHASE_DONE);
		loop_stop(&r->loop, STATUS_DONE);
	}
}

static void record_on_message(struct recording *r, enum role_id from, const struct message *message)
{
	struct msg_status status;

	if (message->type == MESSAGE_STATUS) {
		memcpy(&status, message->payload, sizeof(status));
		record_on_status(r, from, &status);
	} else if (message->type == MESSAGE_HOT_FUNCTION &&
		   r->figures.hot_count < HOT_FUNCTIONS_MAX) {
		memcpy(&r->figures.hot[r->figures.hot_count++], message->payload,
		       sizeof(r->figures.hot[0]));
	}
}

/* A role that ended has mostly said why; only its being killed it cannot say. */
static void record_reap(struct recording *r)
{
	enum role_id why;

	if (r->phase == PHASE_DONE || roles_reap(&r->roles) == ROLE_COUNT)
		return;
	const enum record_phase phase = r->phase;
	const int status = roles_why(&r->roles, &why);
	const struct role_child *child = why < ROLE_COUNT ? &r->roles.children[why] : NULL;
	if (child && WIFSIGNALED(child->wait_status))
		log_error("a role was killed: role=%s signal=%d", role_names[why].process,
			  WTERMSIG(child->wait_status));
	else if (phase != PHASE_STARTING)
		log_error("a role ended early: role=%s",
			  why < ROLE_COUNT ? role_names[why].process : "unknown");
	record_fail(r, status);
}

struct record_watch {
	struct recording *recording;
	enum role_id role;
};

static void record_on_peer(void *context, uint32_t events)
{
	struct record_watch *watch = context;
	struct recording *r = watch->recording;
	struct peer *peer = &r->roles.peers[watch->role];
	struct message message;
	int got;

	if (events & EPOLLOUT)
		peer_flush(peer);
	while ((got = peer_receive(peer, &r->buffer, &message)) > 0)
		record_on_message(r, watch->role, &message);
	if (got < 0) {
		/* The child's own end tells more; it follows at once. */
		peer_close(peer);
		if (got == -EPROTO) {
			log_error("a role broke the protocol: role=%s",
				  role_names[watch->role].process);
			record_fail(r, STATUS_FAILED);
		}
	}
}

static void record_on_signal(void *context, uint32_t events)
{
	struct recording *r = context;
	struct signalfd_siginfo info;

	(void)events;
	while (read(r->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (r->interrupted || r->phase == PHASE_STARTING)
			record_fail(r, STATUS_FAILED);
		r->interrupted = true;
		record_stop_sampling(r);
	}
	record_reap(r);
	if (command_ended(&r->command))
		record_stop_sampling(r);
}

/* The end of a recording of a given length is not up to the tick. */
static void record_tick_at_end(struct recording *r)
{
	const uint64_t left_ms = (r->options.duration_ns - r->figures.duration_ns) / 1000000 + 1;

	if (left_ms < RECORD_TICK_MS)
		loop_tick_within(&r->loop, (int)left_ms);
}

static void record_check_time(struct recording *r, uint64_t now)
{
	const uint64_t in_phase_ms = (now - r->phase_since_ns) / 1000000;

	if (r->phase == PHASE_STARTING && in_phase_ms > RECORD_READY_MS) {
		log_error("the roles did not become ready");
		record_fail(r, STATUS_FAILED);
	}
	if ((r->phase == PHASE_STOPPING || r->phase == PHASE_DRAINING) &&
	    in_phase_ms > RECORD_DRAIN_MS) {
		log_error("the roles did not finish");
		record_fail(r, STATUS_FAILED);
	}
	if (r->phase != PHASE_SAMPLING)
		return;
	r->figures.duration_ns = now - r->started_ns;
	if (r->options.duration_ns && r->figures.duration_ns >= r->options.duration_ns)
		record_stop_sampling(r);
	else if (r->options.duration_ns)
		record_tick_at_end(r);
}

static void record_on_tick(void *context, uint32_t events)
{
	struct recording *r = context;
	const uint64_t now = clock_monotonic_ns();

	(void)events;
	record_reap(r);
	record_check_time(r, now);
	if (r->terminal && r->phase >= PHASE_SAMPLING)
		summary_progress(&r->figures);
}

static int record_watch_all(struct recording *r, struct record_watch watches[ROLE_COUNT])
{
	int e = loop_add(&r->loop, r->signal_fd, EPOLLIN, record_on_signal, r);

	for (int role = ROLE_CLI + 1; role < ROLE_COUNT && !e; role++) {
		watches[role] = (struct record_watch){r, (enum role_id)role};
		e = peer_watch(&r->roles.peers[role], &r->loop, record_on_peer, &watches[role]);
	}
	loop_set_tick(&r->loop, RECORD_TICK_MS, record_on_tick, r);
	return e;
}

static int record_run(struct recording *r)
{
	struct record_watch watches[ROLE_COUNT];

	r->signal_fd = signals_open();
	int status = r->signal_fd < 0 ? STATUS_FAILED : STATUS_DONE;
	if (!status && r->options.command && command_prepare(&r->command, r->options.command) < 0)
		status = STATUS_FAILED;
	if (!status)
		status = roles_start(&r->roles, NULL, r->options.strict_memory);
	if (!status)
		status = configure_loader(r);
	if (!status)
		status = configure_worker(r);
	if (!status)
		status = configure_exporter(r);
	if (!status && (loop_init(&r->loop) < 0 || record_watch_all(r, watches) < 0))
		status = STATUS_FAILED;
	if (status)
		return status;
	record_set_phase(r, PHASE_STARTING);
	return loop_run(&r->loop);
}

/* What was not written, and what that means. */
static int record_check_result(struct recording *r)
{
	const struct msg_status *exporter = &r->figures.status[ROLE_EXPORTER];
	struct msg_losses losses;

	if (exporter->output_failed) {
		const unsigned int i =
		    exporter->failed_index < r->options.output_count ? exporter->failed_index : 0;

		fprintf(stderr, "bulkhead: cannot write %s: %s\n", r->options.outputs[i].path,
			strerror((int)exporter->output_failed));
		return STATUS_FAILED;
	}
	summary_losses(&r->figures, &losses);
	if (r->options.max_loss >= 0 &&
	    (double)summary_total(&losses) >
		r->options.max_loss * (double)r->figures.status[ROLE_LOADER].taken)
		return STATUS_LOSS;
	return r->options.command ? r->command.status : STATUS_DONE;
}

static void record_explain_few_samples(const struct recording *r)
{
	const struct few_samples_facts facts =
	    few_samples_collect(&r->few_samples, &r->options, r->figures.status[ROLE_LOADER].taken,
				r->figures.duration_ns);
	char text[FEW_SAMPLES_TEXT_BYTES];

	if (few_samples_explain(&facts, text))
		fprintf(stderr, "few samples: %s\n", text);
}

static int record_report(struct recording *r)
{
	int status = record_check_result(r);

	summary_print(&r->options, &r->figures);
	record_explain_few_samples(r);
	if (r->options.stats_fd >= 0) {
		int e = summary_write_stats(r->options.stats_fd, &r->figures, &r->roles);

		if (e < 0) {
			fprintf(stderr, "bulkhead: cannot write %s: %s\n", r->options.stats_path,
				strerror(-e));
			return STATUS_FAILED;
		}
	}
	return status;
}

int record_main(int argc, char **argv)
{
	static struct recording r;

	int status = options_parse_record(argc, argv, &r.options);
	if (status)
		return status < 0 ? STATUS_DONE : status;
	status = preflight_check(&r.options);
	if (!status)
		status = outputs_open(&r.options);
	if (status) {
		outputs_remove_created(&r.options);
		return status;
	}
	r.terminal = isatty(STDERR_FILENO);
	for (int role = 0; role < ROLE_COUNT; role++)
		r.roles.peers[role].fd = -1;
	status = record_run(&r);
	if (r.terminal)
		summary_progress_end();
	const bool done = r.phase == PHASE_DONE;
	if (done)
		roles_measure(&r.roles);
	command_abandon(&r.command);
	roles_stop(&r.roles);
	if (done)
		return record_report(&r);
	outputs_remove_created(&r.options);
	return status ? status : STATUS_FAILED;
}
