/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the roles, which are children of the CLI: their uids, their run directory, their
 * start and their end. What they do in between is the supervisor's business (supervisor.h).
 *
 * How this works. Each role gets a uid of its own (role_uids.h). The run directory has one
 * subdirectory per role, which belongs to its uid; there the role listens on a socket. All roles
 * are started at once, with the run directory and the uids as arguments, and each waits until those
 * that it talks to listen and connect. Last, the CLI connects to each of them.
 *
 * A guard, a process that only waits for the end of a pipe, removes the run directory if the CLI is
 * killed. Without the directory, roles that still wait for each other end.
 *
 * A process that waits for a file system or a device may not even end when it is killed. Nobody
 * waits for such a role: a second after it was killed it counts as ended and is left alone. It
 * keeps its uid, and roles_collect_left_alone() collects it if it ends some day.
 *
 * Example: `bulkhead record` with pid 4711 starts the worker with uid 64187 (the fourth from 61184
 * + 4711 * 8 modulo the range), and /run/bulkhead-4711-TIME as its run directory. A file that the
 * manager reads is on a disk that does not answer. At the end of the recording the manager is
 * killed; a second later the recording ends without it.
 */
#ifndef CLI_ROLES_H
#define CLI_ROLES_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ipc/peer.h"

/* Processes of roles that may be left alone at a time, before no role is started any more. */
#define ROLES_LEFT_ALONE_MAX 32

struct role_child {
	pid_t pid;	    /* 0: it does not run */
	pid_t started;	    /* the same, kept after its end */
	uint64_t killed_ns; /* when roles_kill() was called; 0: it was not */
	bool left_alone;    /* it was killed and did not end, which counts as its end */
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
	/* Of this start and earlier ones. */
	pid_t left_alone[ROLES_LEFT_ALONE_MAX];
	size_t left_alone_count;
};

/* Prepares a start of all roles, also a repeated one: chooses their uids. `agent`: part of an
 * agent, not of a recording. `strict_memory`: no role hands out descriptors of processes' memory,
 * and only files that everyone may read are read. Returns STATUS_DONE, or STATUS_FAILED after
 * logging the reason. */
int roles_prepare(struct roles *roles, bool agent, bool strict_memory);

/* Starts all roles after roles_prepare(), and connects to each of them. `agent_run_dir`: the run
 * directory of an agent, which stays; NULL: a recording, which gets a temporary one. Returns
 * STATUS_DONE, or the exit status of the role that failed, which has logged the reason. */
int roles_start(struct roles *roles, const char *agent_run_dir);

/* Starts one role of an agent again after it has ended. Returns 0 or a negative errno. */
int roles_start_again(struct roles *roles, enum role_id role);

/* Connects to a role that roles_start_again() has started. Returns 0; -EAGAIN if it does not listen
 * yet; or another negative errno. */
int roles_connect_again(struct roles *roles, enum role_id role);

/* Removes the run directory, so that nothing can be left in the file system. The names of sockets
 * are not needed once all are connected. */
void roles_remove_run_dir(struct roles *roles);

/* Reads the resident and proportional memory of each role. */
void roles_measure(struct roles *roles);

/* Kills a role, whose end roles_reap() reports. One that was killed before is not killed again. */
void roles_kill(struct roles *roles, enum role_id role);

/* Collects one role that has ended, or that roles_kill() killed a second ago and that is left alone
 * now. Returns ROLE_COUNT if there is none. */
enum role_id roles_reap(struct roles *roles);

/* Collects the roles that were left alone and have ended since. */
void roles_collect_left_alone(struct roles *roles);

/* Disconnects after a role has ended, so that the others end too, and finds the role that failed
 * first. `first` is ROLE_COUNT if none ended with a reason of its own. Returns the exit status to
 * pass on. */
int roles_find_first_failure(struct roles *roles, enum role_id *first);

/* Disconnects, removes the run directory, and kills roles that have not ended within a second. One
 * that is there still another second later is left alone. */
void roles_stop(struct roles *roles);

/* Writes the path of a program in the directory of this program. */
void roles_program_path(const char *name, char *path, size_t size);

#endif
