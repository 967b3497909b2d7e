/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the roles, which are children of the CLI: their uids, their run directory, their
 * start and their end. What they do in between is the supervisor's business (supervisor.h).
 *
 * How this works. Each role gets a uid of its own: that of the user of its name if there is one,
 * otherwise one of the range for dynamic users, chosen by the CLI's pid so that two recordings do
 * not share uids. The run directory has one subdirectory per role, which belongs to its uid; there
 * the role listens on a socket. All roles are started at once, with the run directory and the uids
 * as arguments, and each waits until those that it talks to listen and connect. Last, the CLI
 * connects to each of them.
 *
 * A guard, a process that only waits for the end of a pipe, removes the run directory if the CLI is
 * killed. Without the directory, roles that still wait for each other end.
 *
 * Example: `bulkhead record` with pid 4711 starts the worker with uid 61184 + 4711 * 8 + its place
 * in roles.def (modulo the range), and /run/bulkhead-4711-TIME as its run directory.
 */
#ifndef CLI_ROLES_H
#define CLI_ROLES_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ipc/peer.h"

struct role_child {
	pid_t pid;     /* 0: it does not run */
	pid_t started; /* the same, kept after its end */
	int wait_status;
	struct rusage usage;
	uint64_t rss_bytes, pss_bytes; /* at the last roles_measure() */
};

struct roles {
	bool agent;
	bool strict_memory; /* the opener and the worker have their strict policies */
	char run_dir[96];
	pid_t guard;  /* removes the run directory when guard_fd is closed, or this process ends */
	int guard_fd; /* a pipe */
	struct peer_uids uids;
	struct role_child children[ROLE_COUNT];
	struct peer peers[ROLE_COUNT];
};

/* Starts all roles and connects to each of them. `agent_run_dir`: the run directory of an agent,
 * which stays; NULL: a recording, which gets a temporary one. `strict_memory`: no role hands out
 * descriptors of processes' memory, and only files that everyone may read are read. Returns
 * STATUS_DONE, or the exit status of the role that failed, which has logged the reason. */
int roles_start(struct roles *roles, const char *agent_run_dir, bool strict_memory);

/* Starts one role of an agent again after it has ended. Returns 0 or a negative errno. */
int roles_start_again(struct roles *roles, enum role_id role);

/* Connects to a role that roles_start_again() has started. Returns 0; -EAGAIN if it does not listen
 * yet; or another negative errno. */
int roles_connect_again(struct roles *roles, enum role_id role);

/* Returns the uid of a role: that of its system user if the host has this user. Else it is a uid
 * from the range that systemd keeps for services without a user of their own. */
uid_t roles_uid(enum role_id role, bool agent);

/* Removes the run directory, so that nothing can be left in the file system. The names of sockets
 * are not needed once all are connected. */
void roles_remove_run_dir(struct roles *roles);

/* Reads the resident and proportional memory of each role. */
void roles_measure(struct roles *roles);

/* Collects one role that ended. Returns ROLE_COUNT if none has. */
enum role_id roles_reap(struct roles *roles);

/* Disconnects after a role has ended, so that the others end too, and finds the role that failed
 * first. `first` is ROLE_COUNT if none ended with a reason of its own. Returns the exit status to
 * pass on. */
int roles_find_first_failure(struct roles *roles, enum role_id *first);

/* Disconnects, removes the run directory, and kills roles that have not ended within a second. */
void roles_stop(struct roles *roles);

/* Writes the path of a program in the directory of this program. */
void roles_program_path(const char *name, char *path, size_t size);

#endif
