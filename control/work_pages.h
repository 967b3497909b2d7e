/* SPDX-License-Identifier: Apache-2.0 */
/* The memory in which roles record what they are working on, and what they leave alone
 * (role/work_page.h). It outlives the roles, of which each process gets a copy. */
#ifndef CONTROL_WORK_PAGES_H
#define CONTROL_WORK_PAGES_H

#include "common/roles.h"
#include "ipc/peer.h"

struct work_pages {
	int fds[ROLE_COUNT]; /* -1: the role was not started yet, or has no page */
};

/* Sets `pages` to none. */
void work_pages_clear(struct work_pages *pages);

/* Sends a role that has just been started the page of its predecessor, which has ended or is left
 * alone; or an empty one. Does nothing for roles that have none. Returns 0 or a negative errno. */
int work_pages_send(struct work_pages *pages, struct peer *peer, enum role_id role);

#endif
