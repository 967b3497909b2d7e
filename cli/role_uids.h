/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uids of the roles. Each role has a uid of its own, by which its peers recognise it and the
 * kernel keeps it from the others, so no other process may have it.
 *
 * How this works. A role gets the uid of the user of its name (roles.def), if the host has this
 * user and no process runs as it. Otherwise it gets one of the range that systemd keeps for
 * services without a user: the next one that no user and no process has. A recording begins to look
 * at a place that depends on its pid, so that two that start together do not find the same ones;
 * an agent begins at the first, so that it usually has the same ones again.
 *
 * Example: `bulkhead record` with pid 4711 looks from 61184 + 4711 * 8 modulo the 4,336 uids of the
 * range on: 64184 for the loader, 64185 for the manager. If a process runs as 64185, perhaps a role
 * that hangs and could not be ended, the manager gets 64186 and the opener 64187.
 */
#ifndef CLI_ROLE_UIDS_H
#define CLI_ROLE_UIDS_H

#include <stdbool.h>

#include "ipc/peer.h"

/* Chooses the uids of all roles; that of the CLI is its own. `proc` is the mounted proc file
 * system, which tells what the processes of the host run as. Returns 0; -EUSERS if too few uids are
 * free; -ENOMEM; or the negative errno of opening `proc`. */
int role_uids_choose(const char *proc, bool agent, struct peer_uids *uids);

/* Returns whether role_uids_choose() may give this role this uid. */
bool role_uids_may_be(enum role_id role, uid_t uid);

#endif
