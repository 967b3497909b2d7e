/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of every role (process) of Bulkhead: start-up, connections, sandbox, and the
 * dispatch of messages. What differs stays in the role's main.c and in its list of handlers.
 *
 * `bulkhead record` and `bulkhead run` start each role as
 *
 *	bulkhead-ROLE --run-dir DIR --uids 0,61184,61185,61186,61187,61188 [--agent]
 *		      [--strict-memory]
 *
 * and a service manager or a container runtime as
 *
 *	bulkhead-ROLE --service [--run-dir DIR] [--uids UID,...] [--strict-memory] [--config FILE]
 *
 * A service is part of an agent. Its uids are those of the roles' users unless they are given, it
 * waits for CONTROL for as long as it takes, and reports to the service manager.
 *
 * The role's main() calls, in this order: role_start, role_meet, role_receive for a configuration
 * that it needs before the sandbox, role_enter_sandbox, role_watch_peers, loop_run.
 *
 * Who connects to whom: CONTROL connects to each role, and tells it who is there (MEET). The role
 * connects to those of them with which it works, which are the peers of its policy. Who comes
 * later, for the first time or because it was started again, connects to it. So a role connects
 * before it is in its sandbox, and never afterwards, when its filter would not allow it.
 */
#ifndef ROLE_ROLE_H
#define ROLE_ROLE_H

#include "common/loop.h"
#include "common/sandbox.h"
#include "ipc/peer.h"
#include "role/handlers.h"
#include "role/role_service.h"
#include "role/work_page.h"

struct role {
	enum role_id self;
	enum role_state state; /* reported in STATUS; decides which messages are accepted */
	const struct sandbox_policy *policy;
	struct sandbox sandbox;
	const char *run_dir;
	struct peer_uids uids;
	struct peer peers[ROLE_COUNT]; /* by role; fd -1 where there is none */
	struct loop loop;
	bool agent;	 /* part of an agent, not of a recording */
	bool is_service; /* started by itself (--service) */
	struct role_service service;
	const char *config_file;   /* of the agent, for a service that reads it; NULL: none given */
	const char *pin_directory; /* where the loader of an agent pins; NULL: nowhere */
	bool strict_memory;	   /* the policy is policy->strict, where there is one */
	struct work_page *work_page; /* NULL: not received */
	uint64_t maps_generation;    /* of the loader's maps; 0: not received */
	int listener;		     /* where roles connect that come later */
	uint32_t here;		     /* the roles of MEET */
	bool again;		     /* started again while others go on, says MEET */
	uint64_t refusal_logged_ns;  /* when a refused connection was last logged; 0: never */

	/* Set by the role before role_meet(). */
	message_handlers *handlers;
	void *context; /* the first argument of handlers and of the functions below */
	/* Called after each message for this role alone that was handled in the main loop. May be
	 * NULL. */
	void (*after_message)(void *context);
	/* Called when there is no connection to a peer any more: it has ended, or this role has
	 * closed it because of what the peer has sent (`ended` is false). True: the role goes on,
	 * and waits for the peer to be started again. False, or NULL: the role ends.
	 * It is not called for peers that the role needs (sandbox_policy). Two roles that go on
	 * without each other could both wait, so of these at most one goes on if it has closed the
	 * connection: the worker, or of it and the loader that one, which tells the other one
	 * (GIVEN_UP, GIVEN_UP_BY_LOADER). */
	bool (*on_gone)(void *context, enum role_id other, bool ended);
	/* Called for each peer but CONTROL when it is connected and its messages are watched:
	 * during role_watch_peers(), or later. It may have been started again, and then
	 * knows nothing of what its predecessor was told. May be NULL. */
	void (*on_connected)(void *context, enum role_id other);
};

/* Sets how the C library keeps memory in every role; role_start() calls it. */
void role_tune_memory(void);

/*
 * Closes stray descriptors, parses the arguments, compiles the system call filter and drops
 * privileges. Returns 0, or an exit status after a log message.
 */
int role_start(struct role *role, enum role_id self, const struct sandbox_policy *policy, int argc,
	       char **argv);

/*
 * Listens, accepts CONTROL, and connects to the peers that are there. A service waits for CONTROL
 * without a limit, and logs that it waits after ten seconds. Returns 0, or an exit status after a
 * log message; without a message if the CLI has ended.
 */
int role_meet(struct role *role);

/*
 * Waits up to LIMIT_CONNECT_MS, or as a service without a limit, for one message of the role
 * `other`, and handles it. For use before the main loop. Returns 0, or an exit status after a log
 * message; without a message if the peer has ended.
 */
int role_receive(struct role *role, enum role_id other);

/* Enters the filter of another policy later, which has the same privileges and limits. For use
 * before anything is allowed in the sandbox. Returns 0 or a negative errno. */
int role_use_policy(struct role *role, const struct sandbox_policy *policy);

/* Enters the sandbox. Only after this may untrusted bytes be read. Returns 0, or an exit
 * status after a log message. */
int role_enter_sandbox(struct role *role);

/*
 * Handles the messages of all peers in role->loop from now on, and accepts those that come later.
 * If the connection to a peer ends, or if a peer breaks the protocol, the role ends unless
 * on_gone() says otherwise. It also ends if it cannot accept a connection. Returns 0, or a negative
 * errno after a log message.
 */
int role_watch_peers(struct role *role);

/* Takes note of the loader's maps. Returns false if they are the first, which the caller takes.
 * Otherwise the caller ignores them: they are the same, of a loader that was started again; or they
 * are others, and the role ends. */
bool role_has_maps(struct role *role, const struct msg_maps *maps);

/* Sends a STATUS with role->state to CONTROL, and readiness and life to the service manager. The
 * caller's status->state is ignored. A status that cannot be sent is dropped: a newer one will
 * follow. */
void role_send_status(struct role *role, const struct msg_status *status);

#endif
