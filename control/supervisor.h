/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: starts the roles, configures them, watches over them, restarts them, makes them
 * finish, and ends them. `bulkhead record` and the agent use it, each with its own policy. Roles
 * that are services are started and restarted by somebody else (roles.h): the supervisor connects
 * to each as soon as it listens, for as long as that takes.
 *
 * How this works: the supervisor goes through the phases of enum supervisor_phase.
 *
 *   STARTING  All roles are started. When all are connected, each is told who is there, and is
 *             configured. Each reports ROLE_READY when it has entered its sandbox. When all have,
 *             on_ready() is called, which starts the sampling.
 *   RUNNING   Roles report statistics. If one ends, the policy says what follows: all end
 *             (SUPERVISOR_END_ALL), it alone is restarted (SUPERVISOR_RESTART_ONE), or all are
 *             restarted (SUPERVISOR_RESTART_ALL), which leads to WAITING.
 *   WAITING   No role runs. After the back-off (backoff.h) all are started: STARTING.
 *   STOPPING  supervisor_begin_stop() has told the loader to stop; no further samples are taken.
 *   DRAINING  The loader has stopped. The manager and the worker pass on what they still hold, and
 *             then end the stream of samples; the exporter writes or sends it.
 *   DONE      The exporter has reported ROLE_DONE. The loop ends with STATUS_DONE.
 *
 * Example: an agent's exporter is killed while RUNNING. SIGCHLD makes the supervisor reap it. The
 * policy says SUPERVISOR_RESTART_ONE, so after the back-off before_start(ROLE_EXPORTER) is called,
 * the program is started, connected, told who is there, and configured by
 * configure(ROLE_EXPORTER). It connects to the others, which have gone on meanwhile, and the worker
 * resends to it what the old one had not stored.
 *
 * The supervisor sees no samples: it receives status messages of a fixed size only.
 */
#ifndef CONTROL_SUPERVISOR_H
#define CONTROL_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "control/backoff.h"
#include "control/roles.h"
#include "control/work_pages.h"
#include "common/loop.h"
#include "ipc/peer.h"
#include "role/handlers.h"

enum supervisor_phase {
	SUPERVISOR_STARTING,
	SUPERVISOR_RUNNING,
	SUPERVISOR_WAITING,
	SUPERVISOR_STOPPING,
	SUPERVISOR_DRAINING,
	SUPERVISOR_DONE,
};

/* What follows when a role ends that should not have. */
enum supervisor_on_end {
	SUPERVISOR_END_ALL,
	SUPERVISOR_RESTART_ONE, /* only for a role that the others accept again */
	SUPERVISOR_RESTART_ALL,
};

struct supervisor;

/* What a user of the supervisor decides. Callbacks may be NULL except configure() and on_signal().
 * Every callback may call loop_stop() with an exit status. */
struct supervisor_policy {
	/* The handlers of messages from the roles. Their context is a struct supervisor_watch. */
	message_handlers *handlers;
	const char *run_directory; /* of an agent, where it stays; NULL: a temporary one */
	const char *pin_directory; /* of an agent, where the loader pins; NULL: nowhere */
	bool strict_memory;
	enum supervisor_on_end on_end[ROLE_COUNT];
	/* A role that is silent for this long is killed, unless all would end then. 0: never. */
	uint64_t watchdog_ns;
	uint64_t finish_timeout_ns; /* for STOPPING and DRAINING */

	/* Called before roles are started: before `role` alone, or before all (ROLE_COUNT). */
	void (*before_start)(void *context, enum role_id role);
	/* Sends a role that has just connected its configuration. Returns 0 or a negative errno. */
	int (*configure)(void *context, enum role_id role);
	/* All roles are ready: starts the sampling. */
	void (*on_ready)(void *context);
	/* A role that was started again alone is ready, while RUNNING. */
	void (*on_return)(void *context, enum role_id role);
	/* A role has sent its status, which is in supervisor.role[from].status. */
	void (*on_status)(void *context, enum role_id from);
	/* All roles have ended and will be restarted. */
	void (*on_restart_all)(void *context);
	/* A signal asked this process to end. */
	void (*on_signal)(void *context);
	/* Called after each signal and at each tick, when ended roles have been reaped. */
	void (*on_wake)(void *context, uint64_t now_ns);
};

struct supervised_role {
	struct msg_status status; /* the last that it sent */
	uint64_t heard_ns;	  /* when it last sent anything */
	struct backoff backoff;
	uint32_t restarts;
	/* Starts in a row after which it was killed although it had its configuration, and before
	 * it was ready. */
	unsigned int failed_starts;
	unsigned int vain_starts; /* in a row after which it was not ready, for whatever reason */
	bool ready;
	bool again; /* it was started again alone */
	bool met;   /* it was told who is there, and listens for those that come later */
	bool told_to_stop;
	bool connecting;   /* restarted alone, or a service, and not connected yet */
	int connect_error; /* why it cannot be connected to a service, as it was logged; 0: none */
};

struct supervisor_watch {
	struct supervisor *supervisor;
	enum role_id role;
};

struct supervisor {
	const struct supervisor_policy *policy;
	void *context; /* of the policy's callbacks */
	struct roles roles;
	struct work_pages work_pages;
	struct supervised_role role[ROLE_COUNT];
	struct supervisor_watch watches[ROLE_COUNT];
	struct loop loop;
	struct message_buffer buffer;
	enum supervisor_phase phase;
	enum role_state state; /* of this process as a receiver (messages.def), from the phase */
	uint64_t phase_since_ns, ping_due_ns;
	struct backoff group;  /* of all roles together */
	bool was_running;      /* all roles have been ready at least once */
	bool waiting_logged;   /* for which services this phase waits */
	uint64_t leave_due_ns; /* when `leaving` is disconnected; 0: none was asked to end */
	enum role_id leaving;
	int signal_fd;
};

/* The handlers of STATUS, PONG and LEAVE, for the policy's list. */
int supervisor_on_status(void *watch, const struct msg_status *status);
int supervisor_on_pong(void *watch);
int supervisor_on_leave(void *watch);

/* The next two are for the supervisor alone (supervisor_services.c). */
/* Returns once whether the role `supervisor->leaving` is to be disconnected now, because its
 * service manager has asked it to end, and has not asked this process. A loader is told to leave
 * its pins to the next one. */
bool supervisor_leave_due(struct supervisor *supervisor, uint64_t now_ns);
/* Logs once, after ten seconds, for which services the start waits. They may be started at any
 * time, so nothing else follows. */
void supervisor_log_waiting(struct supervisor *supervisor, uint64_t now_ns);

/* These are for the supervisor alone, too (supervisor_meet.c). */
/* Lets a role that is connected begin: tells it who is there, and configures it. Returns 0 or a
 * negative errno. */
int supervisor_configure(struct supervisor *supervisor, enum role_id role);
/* The same for all roles that have not begun, unless one is not connected yet. A failure is
 * logged. */
int supervisor_configure_all(struct supervisor *supervisor);

/* So is this one (supervisor_watchdog.c). */
/* Asks silent roles for a sign of life, and kills those that stay silent. */
void supervisor_check_silence(struct supervisor *supervisor, uint64_t now_ns);

/* Makes `supervisor` safe for supervisor_stop() before anything else is called. */
void supervisor_clear(struct supervisor *supervisor);

/* Blocks the signals that supervisor_run() handles, and sets up the loop. Nothing is started yet.
 * `policy` and `context` must outlive the supervisor. Returns STATUS_DONE or STATUS_FAILED. */
int supervisor_init(struct supervisor *supervisor, const struct supervisor_policy *policy,
		    void *context);

/* Starts all roles, connects to them and configures them. Returns STATUS_DONE, or the exit status
 * of the role that failed, which has logged the reason. */
int supervisor_start(struct supervisor *supervisor);

/* Runs until the phase is DONE or until loop_stop(). Returns the exit status. */
int supervisor_run(struct supervisor *supervisor);

/* Returns whether all roles work: none is missing, or has not become ready yet. */
bool supervisor_all_ready(const struct supervisor *supervisor);

/* Sends a message without a payload. A role that is gone is noticed by its end. */
void supervisor_send(struct supervisor *supervisor, enum role_id role, enum message_type type);

/* Ends the sampling and lets the roles finish. Only while RUNNING. */
void supervisor_begin_stop(struct supervisor *supervisor);

/* Ends all roles, by force if they do not end within a second. */
void supervisor_stop(struct supervisor *supervisor);

#endif
