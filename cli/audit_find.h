/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the roles that run on this host.
 *
 * How this works. A process is recognised by the file that it executes: one of the programs next to
 * this one, compared by device and inode, which a process cannot forge. In a container it is
 * another file of the same name, which must have the same SHA-256. If the file was replaced, the
 * path that the kernel reports decides, and the difference is reported. A recording or an agent is
 * a process of root that executes `bulkhead` and has such a child. Its roles are its children, and
 * helpers are children of roles that execute the same program. Names, command lines and uids of
 * roles decide nothing, with one exception: --strict-memory, which both the opener and the worker
 * must have in their command lines. Each then has exactly the rights of one of its two policies, so
 * a role gains nothing by a lie.
 *
 * Where each role is a service (control/main.c), a process that executes `bulkhead-control` is the
 * supervisor and a role itself, and its roles are all processes that execute the program of a role
 * and were not started by one of ours.
 *
 * Example: process 4711 executes /usr/bin/bulkhead. Its child 4715 executes bulkhead-opener from
 * the same directory, and 4720, a child of that one, does too: 4715 is the opener of recording 4711
 * and 4720 a helper of it.
 */
#ifndef CLI_AUDIT_FIND_H
#define CLI_AUDIT_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/audit_hash.h"
#include "cli/audit_process.h"
#include "common/roles.h"
#include "common/sandbox.h"

enum {
	AUDIT_PROGRAMS_MAX = 2 * ROLE_COUNT,
	/* Roles and their helpers, also those that hang. */
	AUDIT_MEMBERS_MAX = 64,
};

/* One program of this installation. The exporter has two. */
struct audit_program {
	enum role_id role;
	bool of_agents, of_recordings;
	char path[PATH_MAX];
	struct audit_file_id id;
	char hash[AUDIT_HASH_BYTES]; /* empty until it is needed */
	int error;		     /* of finding it: 0 or an errno */
};

struct audit_programs {
	struct audit_program programs[AUDIT_PROGRAMS_MAX];
	size_t count;
};

/* One process of the host. */
struct audit_table_process {
	pid_t pid, parent;
	uid_t uids[AUDIT_IDS];
	const struct audit_program *program; /* NULL: none of ours */
	bool replaced; /* it executes what was at the path of the program before */
	int error;     /* of finding out what it executes: 0 or an errno */
};

struct audit_table {
	struct audit_table_process *processes;
	size_t count, capacity;
};

struct audit_member {
	pid_t pid;
	enum role_id role;
	const struct audit_program *program;
	bool helper, replaced;
};

struct audit_instance {
	pid_t supervisor;
	bool agent;
	bool services;	    /* each role was started by itself */
	bool strict_memory; /* the opener and the worker say so */
	bool disagrees;	    /* only one of them says so */
	int child_error;    /* why it is unknown what a child executes: an errno; 0: it is known */
	struct audit_member members[AUDIT_MEMBERS_MAX];
	size_t count;
};

/* Finds the programs next to this one. */
void audit_programs_find(struct audit_programs *programs);

/* Reads all processes of the host. Returns 0 or a negative errno. */
int audit_table_read(struct audit_table *table, struct audit_programs *programs);

void audit_table_fini(struct audit_table *table);

/* Finds the next recording or agent from number `*at` of the table on, or only that of the process
 * `only` unless it is 0. Returns false if there is none. */
bool audit_instance_next(const struct audit_table *table, size_t *at, pid_t only,
			 struct audit_instance *instance);

/* Returns the role of a process of the instance, ROLE_CONTROL for the supervisor, or ROLE_COUNT. */
enum role_id audit_instance_role(const struct audit_instance *instance, pid_t pid);

/* Returns the policy of a role. */
const struct sandbox_policy *audit_policy_of(const struct audit_instance *instance,
					     enum role_id role);

#endif
