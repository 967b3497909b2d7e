/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of each role from the start of its program to its end.
 *
 * How this works. A service manager or a container runtime installs its filter before it starts the
 * program, and a filter cannot be widened later. So that filter must allow what the role's policy
 * allows, and in addition what the program needs until it enters its own sandbox. The tables of
 * start_calls.c have the latter. Everything that is generated for those who start roles (the units
 * of systemd, the profiles of container runtimes) is made of these tables and of the policies.
 *
 * Example: the worker's policy has no socket(2), because others connect to it. But it makes its
 * listening socket before its sandbox, so its unit and its container profile allow socket(2), the
 * profile for AF_UNIX only.
 */
#ifndef DEPLOY_START_CALLS_H
#define DEPLOY_START_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/sandbox.h"

enum {
	START_CALLS_MAX = 256
};

/* Where a role is started. */
enum start_place {
	START_IN_UNIT,	    /* by systemd, as the user of the role */
	START_IN_CONTAINER, /* by a container runtime; roles with capabilities start as root */
};

struct start_role {
	const char *name;      /* of the unit, without "bulkhead-" */
	const char *container; /* of the container */
	const struct sandbox_policy *policy;
	const struct sandbox_syscall *more; /* before the sandbox; number -1 ends the list */
};

/* Calls of a role, which belong to the tables. `before` of them are those of the start; the rest
 * are those of the policy. A call may be there several times. */
struct start_calls {
	const struct sandbox_syscall *call[START_CALLS_MAX];
	size_t count, before;
};

/* Finds a role by the name of its unit or of its container; NULL if there is none. */
const struct start_role *start_role_find(const char *name, enum start_place place);

/* Whether the container of the role starts as root, which is the only way to get capabilities
 * there. */
bool start_role_is_root(const struct start_role *role);

/* Collects the calls of a role. Returns 0, or -ENOSPC if there are too many. */
int start_calls_collect(struct start_calls *calls, const struct start_role *role,
			enum start_place place);

#endif
