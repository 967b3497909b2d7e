/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every role's main does in the same order, whatever started it: close stray descriptors,
 *compile the filter, drop, listen, meet its peers. What differs stays in the role's main.c.
 *
 *	bulkhead-ROLE --run-dir DIR --uids 0,61184,61185,61186,61187,61188 [--agent]
 *		      [--strict-memory]
 *
 * In a recording all roles end together. In an agent the exporter may end and come back: who
 *accepts it goes on listening.
 */
#ifndef ROLE_ROLE_H
#define ROLE_ROLE_H

#include "common/loop.h"
#include "common/sandbox.h"
#include "ipc/peer.h"

struct role {
	enum role_id self;
	const struct sandbox_policy *policy;
	struct sandbox sandbox;
	const char *run_dir;
	struct peer_uids uids;
	struct peer peers[ROLE_COUNT]; /* by role; fd -1 where there is none */
	struct loop loop;
	bool agent;
	bool strict_memory; /* the policy is policy->strict, where there is one */
	int listener;	    /* in an agent, for those that may come back; -1 */
	/* A peer is gone. NULL, or false: so the role ends. */
	bool (*on_gone)(void *context, enum role_id other);
	/* The exporter of an agent is there again. */
	void (*on_return)(void *context, enum role_id other);
};

/* How the C library keeps memory in every role; role_start() calls it. */
void role_tune_memory(void);

/* Up to the drop: 0, or an exit status after a message. */
int role_start(struct role *role, enum role_id self, const struct sandbox_policy *policy, int argc,
	       char **argv);

/* Connect to the roles in `connect`, accept those in `accept`. 0, or an exit status after a
 * message. */
int role_meet(struct role *role, uint32_t connect, uint32_t accept);

/* Sandbox: after this, foreign bytes may be read. 0, or an exit status after a message. */
int role_enter_sandbox(struct role *role);

/* A handler for messages; returns 0 or a negative errno, which ends the role. It owns the
 * descriptors. */
typedef int (*role_message_fn)(void *context, enum role_id from, struct message *message);

/* Watch all peers; each message goes to `fn`. The end of any peer ends the role, unless on_gone()
 * says otherwise. */
int role_watch_peers(struct role *role, role_message_fn fn, void *context);

/* Tell the CLI. Losing a status is no loss. */
void role_send_status(struct role *role, const struct msg_status *status);

#endif
