/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles where each is a service of its own: bulkhead-control connects to whatever process
 * listens on a role's socket under the uid of that role's user.
 *
 * How this works. Nobody here starts a role, and nobody can kill one: they have other uids, and
 * this process has no capability. What remains is the connection. A role ends when its connection
 * to CONTROL ends, and its service manager starts it again. So "killed" means disconnected, and
 * "ended" means that the connection has.
 *
 * Example: the worker crashes. Its connection ends, and the others are left as they are. The
 * service manager starts the worker after its back-off, and the supervisor connects to it as soon
 * as it listens.
 */
#include "control/service_roles.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "control/roles.h"

static struct peer_uids users;

void service_roles_set_uids(const struct peer_uids *uids)
{
	users = *uids;
}

bool roles_are_services(void)
{
	return true;
}

int roles_prepare(struct roles *roles, bool agent, bool strict_memory)
{
	roles->agent = agent;
	roles->strict_memory = strict_memory;
	roles->uids = users;
	for (int role = 0; role < ROLE_COUNT; role++) {
		roles->processes[role] = (struct role_process){0};
		roles->peers[role] = (struct peer)PEER_NONE;
	}
	return STATUS_DONE;
}

int roles_start(struct roles *roles, const char *agent_run_dir)
{
	snprintf(roles->run_dir, sizeof(roles->run_dir), "%s", agent_run_dir);
	return STATUS_DONE;
}

int roles_start_again(struct roles *roles, enum role_id role)
{
	(void)roles;
	(void)role;
	return 0;
}

int roles_connect(struct roles *roles, enum role_id role)
{
	struct role_process *process = &roles->processes[role];
	struct ucred credentials;
	socklen_t length = sizeof(credentials);
	int r =
	    peer_connect(&roles->peers[role], roles->run_dir, ROLE_CONTROL, role, &roles->uids, 0);

	/* The run directory of a role is made when it is started for the first time. */
	if (r == -ETIMEDOUT || r == -EPIPE)
		return -EAGAIN;
	if (r < 0)
		return r;
	if (getsockopt(roles->peers[role].fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
		r = -errno;
		peer_close(&roles->peers[role]);
		return r;
	}
	/* In a pid namespace that does not see the role, the kernel says 0. */
	*process = (struct role_process){.pid = credentials.pid ? credentials.pid : -1};
	process->started = process->pid;
	return 0;
}

void roles_measure(struct roles *roles)
{
	(void)roles;
}

void roles_kill(struct roles *roles, enum role_id role)
{
	if (!roles->processes[role].pid)
		return;
	roles->processes[role].killed_ns = clock_monotonic_ns();
	peer_close(&roles->peers[role]);
}

enum role_id roles_reap(struct roles *roles)
{
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (roles->processes[role].pid && roles->peers[role].fd < 0) {
			roles->processes[role].pid = 0;
			return (enum role_id)role;
		}
	}
	return ROLE_COUNT;
}

void roles_collect_others(struct roles *roles)
{
	(void)roles;
}

int roles_find_first_failure(struct roles *roles, enum role_id *first)
{
	roles_stop(roles);
	*first = ROLE_COUNT;
	return STATUS_FAILED;
}

void roles_stop(struct roles *roles)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		peer_close(&roles->peers[role]);
		roles->processes[role].pid = 0;
	}
}
