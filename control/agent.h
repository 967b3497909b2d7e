/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: has the supervisor configure and watch the roles, decides when they sample, and
 * answers `bulkhead status`. `bulkhead run` starts the roles as its children. `bulkhead-control` is
 * the agent where each role is a service of its own.
 *
 *   agent.c         policy for the supervisor, sampling probability, start and end
 *   agent_export.c  what the exporter gets: memory that outlives it, settings, files; accounting
 *   agent_status.c  answers to `bulkhead status` and to the service manager
 */
#ifndef CONTROL_AGENT_H
#define CONTROL_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "config/export_files.h"
#include "control/debug_directories.h"
#include "control/sampling_pause.h"
#include "control/supervisor.h"
#include "role/export_stats.h"

/* What the exporter needs. It is made once and handed to each exporter that is started. */
struct agent_export {
	struct msg_configure_otlp config;
	int fds[MSG_OTLP_FD_COUNT];    /* -1: there is none */
	struct export_files files;     /* to the two above */
	struct export_stats *stats;    /* shared with the exporter, which writes it */
	bool reconcile;		       /* roles have ended: agent_export_reconcile() has work */
	struct msg_losses lost_worker; /* of workers that have ended since it was called */
};

struct agent {
	struct config config;
	struct supervisor supervisor;
	struct supervisor_policy policy;
	struct debug_directories debug_directories;
	struct agent_export export;
	uint64_t started_boot_ns;
	struct sampling_pause pause;
	bool sampling;		     /* in this interval of agent.probability_interval */
	uint64_t probability_due_ns; /* when the next interval begins */
	uint64_t notify_due_ns;
	bool reported_ready;
	int status_fd;
	int notify_fd; /* role/service_manager.h */
	char status_path[CONFIG_TEXT_BYTES + 16];
};

/* Makes an agent safe for agent_finish(). The configuration is loaded already. */
void agent_clear(struct agent *agent);

/* Opens all that does not need the roles: the loop, what the exporter gets, the socket for
 * `bulkhead status`. Returns STATUS_DONE, or another exit status after a message. */
int agent_open(struct agent *agent);

/* Profiles until a signal asks it to end. Returns an exit status. */
int agent_run(struct agent *agent);

/* Ends all roles, and logs where the samples are. `status` is what the others returned. Returns the
 * exit status of the program. */
int agent_finish(struct agent *agent, int status);

/* Opens and creates all that CONFIGURE_OTLP carries, but the spool directory. Returns STATUS_DONE,
 * or another exit status after a message. */
int agent_export_open(struct agent *agent);

/* Opens files of an exporter that is a child, before it (ROLE_EXPORTER) or all roles (ROLE_COUNT)
 * are started. Without a usable spool directory the agent logs this, and goes on with the spool in
 * memory. If certificates, key or headers cannot be read again, the old ones stay in use. */
void agent_export_before_start(struct agent *agent, enum role_id role);

/* Sends the exporter its configuration. Returns 0 or a negative errno. */
int agent_export_configure(struct agent *agent);

/* Says that the worker has ended, and will be started again alone: keeps what it has lost. */
void agent_export_worker_ended(struct agent *agent);

/* Says that all roles but, perhaps, the exporter have ended, or will as soon as they notice that
 * they are disconnected. `ended_early`: the worker ended without reporting its losses. */
void agent_export_roles_ended(struct agent *agent, bool ended_early);

/* After that, adds the counters of the ended loader and worker to the totals, and counts samples
 * that nobody can account for as LOSS_ROLE_ENDED. The exporter must have ended, because it writes
 * the statistics. */
void agent_export_reconcile(struct agent *agent);

/* Counts the samples that are in memory alone as LOSS_NOT_KEPT, when the agent ends. */
void agent_export_end(struct agent *agent);

/* Opens the socket for `bulkhead status`. Returns STATUS_DONE, or another exit status after a
 * message. */
int agent_status_open(struct agent *agent);
void agent_status_close(struct agent *agent);

/* Reports readiness, state and signs of life to the service manager. */
void agent_notify(struct agent *agent, uint64_t now_ns);
void agent_notify_stopping(const struct agent *agent);

#endif
