/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/preflight.h"
#include "cli/signals.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"

enum {
	AGENT_TICK_MS = 1000,
	AGENT_CONNECT_MS = 10, /* while the exporter comes up */
	AGENT_READY_MS = 60000,
	AGENT_DRAIN_MS = 10000, /* beside what the exporter may spend on sending */
	AGENT_BACKOFF_FIRST_MS = 200,
	AGENT_BACKOFF_MOST_MS = 30000,
	AGENT_BACKOFF_UP_MS = 1500,
	AGENT_STEADY_MS = 10000, /* who has lived so long begins without back-off again */
	AGENT_POISONED = 3, /* exporters in a row that do not get over what the last one left */
};

static void agent_set_phase(struct agent *agent, enum agent_phase phase)
{
	agent->phase = phase;
	agent->phase_since_ns = clock_monotonic_ns();
}

static void agent_send(struct agent *agent, enum role_id role, enum message_type type)
{
	peer_send(&agent->roles.peers[role], type, NULL, 0, NULL, 0);
}

/* Its end is seen as any other. A pid of 0 is nobody's: it has ended already. */
static void agent_kill(const struct agent *agent, enum role_id role)
{
	const pid_t pid = agent->roles.children[role].pid;

	if (pid > 0)
		kill(pid, SIGKILL);
}

/* --- back-off --- */

static void backoff_started(struct agent_backoff *backoff)
{
	backoff->started_ns = clock_monotonic_ns();
	backoff->due_ns = 0;
}

/* It has ended: at once again if it had lived for a while, else later each time; but soon in any
 * case if it had come up. */
static void backoff_ended(struct agent_backoff *backoff, bool came_up)
{
	const uint64_t now = clock_monotonic_ns();
	uint64_t wait_ms = 0;

	if (now - backoff->started_ns > AGENT_STEADY_MS * 1000000ull)
		backoff->failures = 0;
	if (backoff->failures)
		wait_ms = (uint64_t)AGENT_BACKOFF_FIRST_MS
			  << (backoff->failures < 9 ? backoff->failures - 1 : 8);
	const uint64_t most_ms = came_up ? AGENT_BACKOFF_UP_MS : AGENT_BACKOFF_MOST_MS;
	if (wait_ms > most_ms)
		wait_ms = most_ms;
	backoff->failures++;
	backoff->due_ns = now + wait_ms * 1000000u;
}

/* --- starting --- */

static int agent_configure_loader(struct agent *agent)
{
	const struct msg_configure_loader config = {
	    .frequency_hz = (uint32_t)agent->config.frequency_hz,
	    .want_kernel = 1,
	    .want_user = 1,
	    .runtimes = (uint32_t)agent->config.runtimes,
	};

	return peer_send(&agent->roles.peers[ROLE_LOADER], MESSAGE_CONFIGURE_LOADER, &config,
			 sizeof(config), NULL, 0);
}

/* Names, separated by commas and spaces, as configured: at most so many, each of at most so many
 * bytes, is what the configuration has made sure of. */
static void agent_list_variables(const char *names, struct msg_configure_worker *config)
{
	while (*names && config->variable_count < LIMIT_IDENTITY_VARIABLES) {
		const size_t length = strcspn(names, ", ");

		if (length && length < sizeof(config->variables[0]))
			memcpy(config->variables[config->variable_count++], names, length);
		names += length + (names[length] != 0);
	}
}

/* Whose samples these are. Environments are read only if something out of them is wanted. */
static int agent_configure_identity(struct agent *agent)
{
	struct msg_configure_worker worker = {
	    .want_identity = 1, .want_service_name = agent->config.process_service_name};
	struct msg_configure_opener opener = {0};

	agent_list_variables(agent->config.environment_variables, &worker);
	opener.allow_environment = worker.want_service_name || worker.variable_count;
	int r = peer_send(&agent->roles.peers[ROLE_OPENER], MESSAGE_CONFIGURE_OPENER, &opener,
			  sizeof(opener), NULL, 0);
	return r ? r
		 : peer_send(&agent->roles.peers[ROLE_WORKER], MESSAGE_CONFIGURE_WORKER, &worker,
			     sizeof(worker), NULL, 0);
}

static void agent_on_peer(void *context, uint32_t events);

static int agent_watch_role(struct agent *agent, enum role_id role)
{
	agent->watches[role] = (struct agent_watch){agent, role};
	agent->role[role].heard_ns = clock_monotonic_ns();
	agent->role[role].ready = false;
	return peer_watch(&agent->roles.peers[role], &agent->loop, agent_on_peer,
			  &agent->watches[role]);
}

/* All roles. 0, or the exit status of the one that failed. */
static int agent_start_group(struct agent *agent)
{
	backoff_started(&agent->group);
	backoff_started(&agent->exporter);
	agent->exporter_starting = false;
	if (agent->was_running)
		agent_export_renew(agent);
	int status =
	    roles_start(&agent->roles, agent->config.run_directory, agent->config.strict_memory);
	if (status)
		return status;
	if (agent_configure_loader(agent) < 0 || agent_configure_identity(agent) < 0 ||
	    agent_export_configure(agent) < 0)
		return STATUS_FAILED;
	for (int role = ROLE_CLI + 1; role < ROLE_COUNT; role++) {
		if (agent_watch_role(agent, (enum role_id)role) < 0)
			return STATUS_FAILED;
	}
	agent_set_phase(agent, AGENT_STARTING);
	return STATUS_DONE;
}

static void agent_start_exporter(struct agent *agent)
{
	if (agent->export.stillborn >= AGENT_POISONED && agent->export.ledger->journal_bytes) {
		log_error("exporters end before they are ready: what was not sent yet is given "
			  "up: samples=%llu",
			  (unsigned long long)agent->export.ledger->interval_samples);
		agent->export.ledger->journal_bytes = 0;
		agent->export.stillborn = 0;
	}
	backoff_started(&agent->exporter);
	agent_export_renew(agent);
	agent->role[ROLE_EXPORTER].restarts++;
	if (roles_start_again(&agent->roles, ROLE_EXPORTER) < 0) {
		backoff_ended(&agent->exporter, false);
		return;
	}
	agent->exporter_starting = true;
	loop_tick_within(&agent->loop, AGENT_CONNECT_MS);
}

static void agent_connect_exporter(struct agent *agent)
{
	int r = roles_connect_again(&agent->roles, ROLE_EXPORTER);

	if (r == -EAGAIN) {
		loop_tick_within(&agent->loop, AGENT_CONNECT_MS);
		return;
	}
	agent->exporter_starting = false;
	if (r < 0 || agent_export_configure(agent) < 0 ||
	    agent_watch_role(agent, ROLE_EXPORTER) < 0)
		log_error("cannot reach the exporter: error=%s", strerror(-r));
}

/* --- chance --- */

/* Whether this host samples during the next interval: p of 100 hosts do. */
static void agent_draw(struct agent *agent, uint64_t now)
{
	uint32_t chance = 0;

	agent->draw_due_ns = now + agent->config.probability_interval_ns;
	if (agent->config.probability_percent < 100 &&
	    getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
		chance = 0;
	const bool sampling = chance % 100 < agent->config.probability_percent;
	if (sampling != agent->sampling)
		agent_send(agent, ROLE_LOADER, sampling ? MESSAGE_START : MESSAGE_STOP);
	agent->sampling = sampling;
}

/* --- ending --- */

static void agent_stop(struct agent *agent)
{
	if (agent->phase == AGENT_STOPPING || agent->phase == AGENT_DRAINING) {
		log_warning("asked to end a second time: what was not sent stays");
		loop_stop(&agent->loop, STATUS_EXPORT);
		return;
	}
	agent_notify_stopping();
	if (agent->phase != AGENT_RUNNING) {
		loop_stop(&agent->loop, STATUS_DONE);
		return;
	}
	agent_send(agent, ROLE_LOADER, MESSAGE_STOP);
	agent_set_phase(agent, AGENT_STOPPING);
	/* Without an exporter there is no end. */
	if (agent->exporter.due_ns)
		agent->exporter.due_ns = clock_monotonic_ns();
	loop_tick_within(&agent->loop, 0);
}

/* Roles that cannot go on: all end, and are started again later. */
static void agent_restart_group(struct agent *agent)
{
	for (int role = ROLE_CLI + 1; role < ROLE_COUNT; role++)
		agent->role[role].restarts++;
	roles_stop(&agent->roles);
	agent_export_close_books(agent, true);
	agent->sampling = false;
	backoff_ended(&agent->group, agent->phase == AGENT_RUNNING);
	if (agent->phase == AGENT_STOPPING || agent->phase == AGENT_DRAINING)
		loop_stop(&agent->loop, STATUS_EXPORT);
	else
		agent_set_phase(agent, AGENT_WAITING);
	loop_tick_within(&agent->loop, 0);
}

/* A failure that another start would only repeat. */
static bool agent_is_final(const struct agent *agent, int wait_status)
{
	return !agent->was_running && WIFEXITED(wait_status) &&
	       WEXITSTATUS(wait_status) >= STATUS_USAGE &&
	       WEXITSTATUS(wait_status) <= STATUS_NOT_PERMITTED;
}

static void agent_tell_end(enum role_id role, int wait_status)
{
	if (WIFSIGNALED(wait_status))
		log_error("a role was killed, and is started again: role=%s signal=%d",
			  role_names[role].process, WTERMSIG(wait_status));
	else
		log_error("a role ended, and is started again: role=%s status=%d",
			  role_names[role].process, WEXITSTATUS(wait_status));
}

static void agent_exporter_ended(struct agent *agent, int wait_status)
{
	struct agent_role *role = &agent->role[ROLE_EXPORTER];

	if (WIFEXITED(wait_status) && !WEXITSTATUS(wait_status))
		log_info("the exporter begins anew");
	else
		agent_tell_end(ROLE_EXPORTER, wait_status);
	agent->export.stillborn = role->ready ? 0 : agent->export.stillborn + 1;
	backoff_ended(&agent->exporter, role->ready);
	role->ready = false;
	peer_close(&agent->roles.peers[ROLE_EXPORTER]);
	agent->exporter_starting = false;
	loop_tick_within(&agent->loop, 0);
}

/* One takes the others with it. */
static void agent_group_ended(struct agent *agent)
{
	enum role_id why;

	roles_why(&agent->roles, &why);
	if (why < ROLE_COUNT)
		agent_tell_end(why, agent->roles.children[why].wait_status);
	agent_restart_group(agent);
}

static void agent_on_end_of(struct agent *agent, enum role_id role)
{
	const int wait_status = agent->roles.children[role].wait_status;

	if (agent->phase == AGENT_WAITING || agent->phase == AGENT_DONE)
		return;
	if (agent_is_final(agent, wait_status)) {
		loop_stop(&agent->loop, WEXITSTATUS(wait_status));
		return;
	}
	if (role == ROLE_EXPORTER)
		agent_exporter_ended(agent, wait_status);
	else
		agent_group_ended(agent);
}

static void agent_reap(struct agent *agent)
{
	enum role_id role;

	while ((role = roles_reap(&agent->roles)) != ROLE_COUNT)
		agent_on_end_of(agent, role);
}

/* --- what the roles say --- */

static bool agent_all_ready(const struct agent *agent)
{
	for (int role = ROLE_CLI + 1; role < ROLE_COUNT; role++) {
		if (!agent->role[role].ready)
			return false;
	}
	return true;
}

static void agent_on_status(struct agent *agent, enum role_id from)
{
	const enum role_state state = (enum role_state)agent->role[from].status.state;

	agent->role[from].ready |= state >= ROLE_READY;
	if (agent->phase == AGENT_STARTING && agent_all_ready(agent)) {
		agent_set_phase(agent, AGENT_RUNNING);
		for (int role = 0; role < ROLE_COUNT; role++)
			agent->role[role].heard_ns = agent->phase_since_ns;
		agent->was_running = true;
		agent_draw(agent, clock_monotonic_ns());
	}
	if (agent->phase == AGENT_STOPPING && from == ROLE_LOADER && state == ROLE_STOPPED) {
		agent_send(agent, ROLE_MANAGER, MESSAGE_STOP);
		agent_send(agent, ROLE_WORKER, MESSAGE_STOP);
		agent_set_phase(agent, AGENT_DRAINING);
	}
	if (agent->phase == AGENT_DRAINING && from == ROLE_EXPORTER && state == ROLE_DONE) {
		agent_set_phase(agent, AGENT_DONE);
		loop_stop(&agent->loop, STATUS_DONE);
	}
}

static void agent_on_peer(void *context, uint32_t events)
{
	struct agent_watch *watch = context;
	struct agent *agent = watch->agent;
	struct agent_role *role = &agent->role[watch->role];
	struct peer *peer = &agent->roles.peers[watch->role];
	struct message message;
	int got;

	if (events & EPOLLOUT)
		peer_flush(peer);
	while ((got = peer_receive(peer, &agent->buffer, &message)) > 0) {
		role->heard_ns = clock_monotonic_ns();
		if (message.type != MESSAGE_STATUS)
			continue;
		memcpy(&role->status, message.payload, sizeof(role->status));
		agent_on_status(agent, watch->role);
	}
	if (got == 0)
		return;
	if (got == -EPROTO) {
		log_error("a role broke the protocol: role=%s", role_names[watch->role].process);
		agent_kill(agent, watch->role);
	}
	/* Its end follows, and tells more. */
	peer_close(peer);
}

/* --- time --- */

static void agent_check_watchdog(struct agent *agent, uint64_t now)
{
	/* While they start they do not listen, and have another limit. */
	if (!agent->config.watchdog_ns || now < agent->ping_due_ns ||
	    agent->phase == AGENT_STARTING || agent->phase == AGENT_WAITING)
		return;
	agent->ping_due_ns = now + agent->config.watchdog_ns / 4;
	for (int role = ROLE_CLI + 1; role < ROLE_COUNT; role++) {
		const uint64_t silent = now - agent->role[role].heard_ns;

		if (agent->roles.peers[role].fd < 0 || !agent->roles.children[role].pid)
			continue;
		if (silent > agent->config.watchdog_ns) {
			log_error("a role has been silent for too long and is killed: role=%s",
				  role_names[role].process);
			agent_kill(agent, (enum role_id)role);
		} else if (silent > agent->config.watchdog_ns / 4) {
			agent_send(agent, (enum role_id)role, MESSAGE_PING);
		}
	}
}

static void agent_check_phase(struct agent *agent, uint64_t now)
{
	const uint64_t in_phase = now - agent->phase_since_ns;

	if (agent->phase == AGENT_STARTING && in_phase > AGENT_READY_MS * 1000000ull) {
		log_error("the roles did not become ready");
		agent_restart_group(agent);
	}
	if ((agent->phase == AGENT_STOPPING || agent->phase == AGENT_DRAINING) &&
	    in_phase > AGENT_DRAIN_MS * 1000000ull + agent->config.drain_timeout_ns) {
		log_error("the roles did not finish");
		loop_stop(&agent->loop, STATUS_FAILED);
	}
}

static void agent_check_due(struct agent *agent, uint64_t now)
{
	if (agent->phase == AGENT_WAITING) {
		if (now >= agent->group.due_ns && agent_start_group(agent))
			agent_restart_group(agent);
		return;
	}
	if (agent->exporter_starting)
		agent_connect_exporter(agent);
	else if (agent->exporter.due_ns && now >= agent->exporter.due_ns)
		agent_start_exporter(agent);
	if (agent->phase == AGENT_RUNNING && now >= agent->draw_due_ns)
		agent_draw(agent, now);
}

static void agent_tick_at(struct agent *agent, uint64_t due_ns, uint64_t now)
{
	if (due_ns && due_ns < now + AGENT_TICK_MS * 1000000ull)
		loop_tick_within(&agent->loop,
				 due_ns > now ? (int)((due_ns - now) / 1000000) + 1 : 0);
}

static void agent_on_tick(void *context, uint32_t events)
{
	struct agent *agent = context;
	const uint64_t now = clock_monotonic_ns();

	(void)events;
	agent_reap(agent);
	if (agent->loop.stopped)
		return;
	agent_check_phase(agent, now);
	agent_check_watchdog(agent, now);
	agent_check_due(agent, now);
	agent_notify(agent, now);
	if (agent->phase == AGENT_WAITING)
		agent_tick_at(agent, agent->group.due_ns, now);
	else
		agent_tick_at(agent, agent->exporter.due_ns, now);
}

static void agent_on_signal(void *context, uint32_t events)
{
	struct agent *agent = context;
	struct signalfd_siginfo info;

	(void)events;
	while (read(agent->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			agent_stop(agent);
	}
	agent_reap(agent);
}

/* One agent a run directory. */
static int agent_lock(struct agent *agent)
{
	char path[CONFIG_TEXT_BYTES + 16];

	if (mkdir(agent->config.run_directory, 0711) < 0 && errno != EEXIST) {
		log_error("cannot make the run directory: path=%s error=%s",
			  agent->config.run_directory, strerror(errno));
		return STATUS_FAILED;
	}
	snprintf(path, sizeof(path), "%s/lock", agent->config.run_directory);
	agent->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (agent->lock_fd < 0 || flock(agent->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		log_error(errno == EWOULDBLOCK ? "another agent is running: path=%s"
					       : "cannot lock the run directory: path=%s",
			  path);
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

static int agent_start(struct agent *agent)
{
	struct record_options nothing_special = {.strict_memory = agent->config.strict_memory};

	int status = preflight_check(&nothing_special);
	if (!status && (agent->signal_fd = signals_open()) < 0)
		status = STATUS_FAILED;
	if (!status)
		status = agent_lock(agent);
	if (!status)
		status = agent_export_open(agent);
	if (!status && loop_init(&agent->loop) < 0)
		status = STATUS_FAILED;
	if (!status)
		status = agent_status_open(agent);
	if (!status &&
	    loop_add(&agent->loop, agent->signal_fd, EPOLLIN, agent_on_signal, agent) < 0)
		status = STATUS_FAILED;
	if (!status)
		status = agent_start_group(agent);
	return status;
}

/* Where every sample is: the first two are the sum of the rest. */
static void agent_tell_account(const struct export_stats *ledger)
{
	uint64_t lost = 0;

	for (int i = 0; i < LOSS_COUNT; i++)
		lost += ledger->lost.lost[i] + ledger->lost_before.lost[i];
	log_info("ended: taken=%llu carried=%llu delivered=%llu waiting=%llu lost=%llu",
		 (unsigned long long)ledger->taken_before,
		 (unsigned long long)ledger->spooled_at_start,
		 (unsigned long long)ledger->delivered, (unsigned long long)ledger->waiting,
		 (unsigned long long)lost);
}

static int agent_finish(struct agent *agent, int status)
{
	const struct export_stats *ledger = agent->export.ledger;

	roles_stop(&agent->roles);
	agent_status_close(agent);
	if (!ledger)
		return status;
	agent_export_close_books(agent, agent->phase != AGENT_DONE);
	agent_export_end(agent);
	if (agent->was_running)
		agent_tell_account(ledger);
	if (ledger->waiting)
		log_warning("samples wait in the spool for the next start: samples=%llu path=%s",
			    (unsigned long long)ledger->waiting, agent->config.spool_directory);
	if (ledger->lost.lost[LOSS_NOT_KEPT])
		log_error("samples were in memory alone, for want of a spool, and are lost: "
			  "samples=%llu",
			  (unsigned long long)ledger->lost.lost[LOSS_NOT_KEPT]);
	if (!status && (ledger->waiting || ledger->lost.lost[LOSS_NOT_KEPT]))
		status = STATUS_EXPORT;
	return status;
}

int agent_main(int argc, char **argv)
{
	static struct agent agent;

	/* Of a service, starts and ends are news. */
	setenv("BULKHEAD_LOG", "info", 0);
	log_init("bulkhead");
	int status = config_load(argc, argv, environ, &agent.config);
	if (status)
		return status < 0 ? STATUS_DONE : status;
	if (agent.config.disabled) {
		log_info("OTEL_SDK_DISABLED is set: nothing is profiled");
		return STATUS_DONE;
	}
	agent.signal_fd = agent.lock_fd = agent.status_fd = -1;
	agent.started_unix_ns = clock_read_ns(CLOCK_REALTIME);
	for (int i = 0; i < MSG_OTLP_FD_COUNT; i++)
		agent.export.fds[i] = -1;
	for (int role = 0; role < ROLE_COUNT; role++)
		agent.roles.peers[role].fd = -1;
	status = agent_start(&agent);
	if (!status) {
		loop_set_tick(&agent.loop, AGENT_TICK_MS, agent_on_tick, &agent);
		status = loop_run(&agent.loop);
	}
	return agent_finish(&agent, status);
}
