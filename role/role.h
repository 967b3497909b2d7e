/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of every role (process) of Bulkhead: start-up, connections, sandbox, and the
 * dispatch of messages. What differs stays in the role's main.c and in its list of handlers.
 *
 * The CLI starts each role as
 *
 *	bulkhead-ROLE --run-dir DIR --uids 0,61184,61185,61186,61187,61188 [--agent]
 *		      [--strict-memory]
 *
 * and the role's main() calls, in this order: role_start, role_meet, role_receive for a
 * configuration that it needs before the sandbox, role_enter_sandbox, role_watch_peers, loop_run.
 */
#ifndef ROLE_ROLE_H
#define ROLE_ROLE_H

#include "common/loop.h"
#include "common/sandbox.h"
#include "ipc/peer.h"
#include "role/handlers.h"
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
	bool agent;		     /* part of an agent (--agent), not of a recording */
	bool strict_memory;	     /* the policy is policy->strict, where there is one */
	struct work_page *work_page; /* NULL: not received */
	int listener; /* of roles that an agent's exporter reconnects to; otherwise -1 */
	uint64_t refusal_logged_ns; /* when a refused connection was last logged; 0: never */

	/* Set by the role before role_receive() and role_watch_peers(). */
	message_handlers *handlers;
	void *context; /* the first argument of handlers and of the functions below */
	/* Called after each message for this role alone that was handled in the main loop. May be
	 * NULL. */
	void (*after_message)(void *context);
	/* Called when the connection to a peer has ended. True: the role continues without it.
	 * False, or NULL: the role ends. */
	bool (*on_gone)(void *context, enum role_id other);
	/* Called when an agent's exporter has reconnected. May be NULL. */
	void (*on_return)(void *context, enum role_id other);
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
 * Listens, connects to the roles in `connect` (ROLE_BIT of each), and accepts those in `accept`.
 * Returns 0, or an exit status after a log message; without a message if the CLI has ended.
 */
int role_meet(struct role *role, uint32_t connect, uint32_t accept);

/*
 * Waits up to LIMIT_CONNECT_MS for one message of the role `other`, and handles it. For use before
 * the main loop. Returns 0, or an exit status after a log message; without a message if the peer
 * has ended.
 */
int role_receive(struct role *role, enum role_id other);

/* Enters the sandbox. Only after this may untrusted bytes be read. Returns 0, or an exit
 * status after a log message. */
int role_enter_sandbox(struct role *role);

/*
 * Handles the messages of all peers in role->loop from now on. If the connection to a peer ends, or
 * if a peer breaks the protocol, the role ends unless on_gone() says otherwise. It also ends if it
 * cannot accept an exporter that reconnects. Returns 0, or a negative errno after a log message.
 */
int role_watch_peers(struct role *role);

/* Sends a STATUS with role->state to the CLI. The caller's status->state is ignored. A status that
 * cannot be sent is dropped: a newer one will follow. */
void role_send_status(struct role *role, const struct msg_status *status);

#endif
