/* SPDX-License-Identifier: Apache-2.0 */
/* The roles as the CLI's children: their uids, their run directory, their processes. */
#ifndef CLI_ROLES_H
#define CLI_ROLES_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ipc/peer.h"

struct role_child {
	pid_t pid;     /* 0: not running */
	pid_t started; /* the same, kept after its end */
	int wait_status;
	struct rusage usage;
	uint64_t rss_bytes, pss_bytes; /* when it was last looked at */
};

struct roles {
	bool agent;
	bool strict_memory; /* opener and worker under their strict policies */
	char run_dir[96];
	pid_t guard; /* removes the run directory when we let go of it, or are no more */
	int guard_fd;
	struct peer_uids uids;
	struct role_child children[ROLE_COUNT];
	struct peer peers[ROLE_COUNT];
};

/* Start all roles and connect to each. 0, or an exit status: that of the role that failed, which
 * has said why. `agent_run_dir`: an agent's run directory, which stays; NULL: a recording, which
 * makes one of its own. `strict_memory`: nobody hands out descriptors of processes' memory, and
 * nobody may read files that their owners alone may. */
int roles_start(struct roles *roles, const char *agent_run_dir, bool strict_memory);

/* Start one role of an agent again, after it has ended; and connect to it as soon as it listens. 0;
 * -EAGAIN: not yet; or another negative errno. */
int roles_start_again(struct roles *roles, enum role_id role);
int roles_connect_again(struct roles *roles, enum role_id role);

/* The uid that a role has. An agent's are the same at each start. */
uid_t roles_uid(enum role_id role, bool agent);

/* The sockets are connected: names are not needed any more, and nothing can be left behind. */
void roles_remove_run_dir(struct roles *roles);

/* Resident and proportional memory of each, now. */
void roles_measure(struct roles *roles);

/* Collect children that ended. The role that did, or ROLE_COUNT. */
enum role_id roles_reap(struct roles *roles);

/* After a role ended: hang up, let the others follow, and find out which one began and with what
 * exit status. ROLE_COUNT if none had a reason. */
int roles_why(struct roles *roles, enum role_id *why);

/* Hang up; whoever has not gone within a second is killed. */
void roles_stop(struct roles *roles);

/* The program beside this one. */
void roles_program_path(const char *name, char *path, size_t size);

#endif
