/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of role.h share: how a role starts and meets its peers (role.c), and its
 * connections in the main loop (role_watch.c). */
#ifndef ROLE_ROLE_PRIVATE_H
#define ROLE_ROLE_PRIVATE_H

#include <stdbool.h>

#include "role/role.h"

/* Returns whether this role has nothing to do without a peer, and so ends with it. */
static inline bool role_needs(const struct role *role, enum role_id other)
{
	return role->policy->needs & ROLE_BIT(other);
}

/* Gives a message to its handler, and returns what that returned. */
int role_handle(struct role *role, struct message *message);

/* What accepts the role's peers. */
struct peer_listener role_listener(struct role *role);

/* Logs why a connection is given up. `r` is what peer_receive() or a handler of `message` returned,
 * or what peer_flush() returned if `message` is NULL: a negative errno other than -EPIPE. */
void role_log_failure(enum role_id other, const struct message *message, int r);

/* Log why the role ends: it cannot accept peers, or cannot set up its loop. */
void role_log_accept_error(int error);
void role_log_loop_error(int error);

#endif
