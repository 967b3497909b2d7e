/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead run`, the agent: runs the roles under the supervisor continuously, decides when they
 * sample, and answers `bulkhead status`.
 *
 *   agent.c         policy for the supervisor, sampling probability, start and end
 *   agent_export.c  what the exporter gets: files, memory that outlives it, settings, accounting
 *   agent_status.c  answers to `bulkhead status` and to the service manager
 */
#ifndef CLI_AGENT_H
#define CLI_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/config.h"
#include "cli/debug_directories.h"
#include "cli/supervisor.h"
#include "role/export_stats.h"

/* What the exporter needs. It is made once and handed to each exporter that is started. */
struct agent_export {
	struct msg_configure_otlp config;
	int fds[MSG_OTLP_FD_COUNT]; /* -1: there is none */
	struct export_stats *stats; /* shared with the exporter, which writes it */
};

struct agent {
	struct config config;
	struct supervisor supervisor;
	struct supervisor_policy policy;
	struct debug_directories debug_directories;
	struct agent_export export;
	uint64_t started_unix_ns;
	bool sampling;		     /* in this interval of agent.probability_interval */
	uint64_t probability_due_ns; /* when the next interval begins */
	uint64_t notify_due_ns;
	bool reported_ready;
	int lock_fd, status_fd;
	char status_path[CONFIG_TEXT_BYTES + 16];
};

/* Opens and creates all that CONFIGURE_OTLP carries, but the spool directory. Returns STATUS_DONE,
 * or another exit status after a message. */
int agent_export_open(struct agent *agent);

/* Opens spool.directory, and hands it over to the exporter, whose uid is known. Without a usable
 * directory the agent logs this, and goes on with the spool in memory. */
void agent_export_open_spool(struct agent *agent);

/* Reads certificates, key and headers again, before another exporter is started. If one of them
 * cannot be read any more, the old ones stay in use. */
void agent_export_reload(struct agent *agent);

/* Sends the exporter its configuration. Returns 0 or a negative errno. */
int agent_export_configure(struct agent *agent);

/* Adds the counters of the ended loader and worker to the totals, and counts samples that nobody
 * can account for as LOSS_ROLE_ENDED. Called when all roles but, perhaps, the exporter have ended.
 * `ended_early`: the worker ended without reporting its losses. */
void agent_export_reconcile_counters(struct agent *agent, bool ended_early);

/* Counts the samples that are in memory alone as LOSS_NOT_KEPT, when the agent ends. */
void agent_export_end(struct agent *agent);

/* Opens the socket for `bulkhead status`. Returns STATUS_DONE, or another exit status after a
 * message. */
int agent_status_open(struct agent *agent);
void agent_status_close(struct agent *agent);

/* Reports readiness, state and signs of life to the service manager. */
void agent_notify(struct agent *agent, uint64_t now_ns);
void agent_notify_stopping(void);

/* Executes `bulkhead run`. Returns an exit status. */
int agent_main(int argc, char **argv);

/* Executes `bulkhead status` (status.c). Returns an exit status. */
int status_main(int argc, char **argv);

#endif
