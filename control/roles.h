/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the roles, as the supervisor sees them (supervisor.h): how they come, how it is
 * connected to them, and how it learns that they have ended.
 *
 * There are two kinds, and a program links one of them. In `bulkhead record` and `bulkhead run` the
 * roles are children (cli/child_roles.c). `bulkhead-control` finds roles that a service manager or
 * a container runtime has started (control/service_roles.c); it can neither start nor kill them.
 */
#ifndef CONTROL_ROLES_H
#define CONTROL_ROLES_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "ipc/peer.h"

/* Processes of roles that may be left alone at a time, before no role is started any more. */
#define ROLES_LEFT_ALONE_MAX 32

struct role_process {
	pid_t pid;	    /* 0: it does not run, or it is a service that is not connected */
	pid_t started;	    /* the same, kept after its end */
	uint64_t killed_ns; /* when roles_kill() was called; 0: it was not */
	bool left_alone;    /* it was killed and did not end, which counts as its end */
	int wait_status;    /* of a child */
	struct rusage usage;
	uint64_t rss_bytes, pss_bytes; /* at the last roles_measure() */
};

struct roles {
	bool agent;
	bool strict_memory; /* the opener and the worker have their strict policies */
	char run_dir[96];
	const char *pin_directory; /* where the loader is to pin; NULL: nowhere */
	bool has_pin_directory;	   /* it exists, and belongs to the loader */
	pid_t guard;  /* removes the run directory when guard_fd is closed, or this process ends */
	int guard_fd; /* a pipe */
	struct peer_uids uids;
	struct role_process processes[ROLE_COUNT];
	struct peer peers[ROLE_COUNT]; /* fd -1: not connected (yet) */
	/* Of this start and earlier ones. */
	pid_t left_alone[ROLES_LEFT_ALONE_MAX];
	size_t left_alone_count;
	pid_t command; /* what a recording runs, a child that others collect; 0: there is none */
};

/* Returns which kind this program links: true for services. */
bool roles_are_services(void);

/* Prepares a start of all roles, also a repeated one: chooses the uids of children, or looks up
 * those of services. `agent`: part of an agent, not of a recording. `strict_memory`: no role hands
 * out descriptors of processes' memory, and only files that everyone may read are read. Returns
 * STATUS_DONE, or another exit status after logging the reason. */
int roles_prepare(struct roles *roles, bool agent, bool strict_memory);

/* Starts all roles after roles_prepare(), and connects to each child. Services are connected to
 * later, by roles_connect(). `agent_run_dir`: the run directory of an agent, which stays; NULL: a
 * recording, which gets a temporary one. Returns STATUS_DONE, or the exit status of the role that
 * failed, which has logged the reason. */
int roles_start(struct roles *roles, const char *agent_run_dir);

/* Starts one role of an agent again after it has ended. A service is started by others. Returns 0
 * or a negative errno. */
int roles_start_again(struct roles *roles, enum role_id role);

/* Connects to a service, or to a child that roles_start_again() has started. Returns 0; -EAGAIN if
 * it does not listen yet; or another negative errno. */
int roles_connect(struct roles *roles, enum role_id role);

/* Reads the resident and proportional memory of each child. That of services, which have other
 * uids, is not readable: it stays 0. */
void roles_measure(struct roles *roles);

/* Kills a role, whose end roles_reap() reports. One that was killed before is not killed again. A
 * service cannot be killed, but it is disconnected, and ends if it still notices that. */
void roles_kill(struct roles *roles, enum role_id role);

/* Collects one role that has ended, which for a service means that its connection has. A child that
 * roles_kill() killed a second ago is left alone and counts as ended. Returns ROLE_COUNT if there
 * is none. */
enum role_id roles_reap(struct roles *roles);

/* Collects what else has ended and is a child: roles that were left alone, and helpers of roles
 * that have ended (role/helper.h). Their zombies would count as processes of their uid, of which a
 * role may have only a few. A guard that has ended is replaced. */
void roles_collect_others(struct roles *roles);

/* Disconnects after a role has ended, so that the others end too, and finds the role that failed
 * first. `first` is ROLE_COUNT if none ended with a reason of its own, and for services, whose
 * reasons are not known here. Returns the exit status to pass on. */
int roles_find_first_failure(struct roles *roles, enum role_id *first);

/* Disconnects, removes the run directory of children, and kills those that have not ended within a
 * second. One that is there still another second later is left alone. */
void roles_stop(struct roles *roles);

#endif
