/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead run`: the roles kept going, by the process that has started them. It decides when they
 * start, pause, end and come back, and answers `bulkhead status`; it sees no sample.
 */
#ifndef CLI_AGENT_H
#define CLI_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/config.h"
#include "cli/roles.h"
#include "common/loop.h"
#include "role/export_stats.h"

enum agent_phase {
	AGENT_STARTING, /* the roles come up */
	AGENT_RUNNING,
	AGENT_WAITING,	/* they ended; they are started again when back-off allows */
	AGENT_STOPPING, /* asked to end: the kernel side first */
	AGENT_DRAINING, /* then everybody passes on what is left */
	AGENT_DONE,
};

/* How long to wait before something that ended is started again. */
struct agent_backoff {
	uint64_t started_ns, due_ns; /* due 0: nothing waits */
	unsigned int failures;	     /* in a row */
};

struct agent_role {
	struct msg_status status; /* the last it sent */
	uint64_t heard_ns;
	uint32_t restarts;
	bool ready;
};

/* What the exporter needs, made once and handed to each that is started. */
struct agent_export {
	struct msg_configure_otlp config;
	int fds[MSG_OTLP_FD_COUNT];
	struct export_stats *ledger;
	unsigned int stillborn; /* exporters in a row that ended before they were ready */
};

struct agent_watch {
	struct agent *agent;
	enum role_id role;
};

struct agent {
	struct config config;
	struct roles roles;
	struct agent_role role[ROLE_COUNT];
	struct agent_export export;
	struct loop loop;
	struct agent_watch watches[ROLE_COUNT];
	struct message_buffer buffer;
	enum agent_phase phase;
	uint64_t phase_since_ns, started_unix_ns;
	struct agent_backoff group, exporter; /* all roles; the exporter alone */
	bool exporter_starting;		      /* spawned, not connected yet */
	bool was_running;
	bool sampling; /* this interval's draw */
	uint64_t draw_due_ns, ping_due_ns, notify_due_ns;
	bool told_ready;
	int signal_fd, lock_fd, status_fd;
	char status_path[CONFIG_TEXT_BYTES + 16];
};

/* agent_export.c: open and make all that CONFIGURE_OTLP carries. 0, or an exit status after a
 * message. */
int agent_export_open(struct agent *agent);
/* Before another exporter is started: certificates, key and headers are read again. */
void agent_export_renew(struct agent *agent);
/* Tell the exporter. 0 or a negative errno. */
int agent_export_configure(struct agent *agent);
/* All roles but, perhaps, the exporter have ended: what the kernel took and nobody passed on is
 * lost. `ended_early`: the worker did not say what it lost itself. */
void agent_export_close_books(struct agent *agent, bool ended_early);
/* The agent ends: what waits in its memory alone is lost with it. */
void agent_export_end(struct agent *agent);

/* agent_status.c: serve `bulkhead status`. 0, or an exit status after a message. */
int agent_status_open(struct agent *agent);
void agent_status_close(struct agent *agent);
/* The service manager: ready, state, still alive. */
void agent_notify(struct agent *agent, uint64_t now_ns);
void agent_notify_stopping(void);

int agent_main(int argc, char **argv);

/* `bulkhead status` (status.c). */
int status_main(int argc, char **argv);

#endif
