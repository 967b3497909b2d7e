/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of Bulkhead: its processes, each with privileges of its own (common/roles.def). */
#ifndef COMMON_ROLES_H
#define COMMON_ROLES_H

enum role_id {
#define ROLE(id, directory, user, process, program, agent_program) ROLE_##id,
#include "common/roles.def"
#undef ROLE
	ROLE_COUNT
};

/* The bit of a role in a set of roles. */
#define ROLE_BIT(role) (1u << (role))

/* The names are arrays: a table of pointers is larger, since each pointer is relocated at start. */
struct role_names {
	char directory[16]; /* of its socket, in the run directory */
	char user[16];	    /* its system user, where the host has it */
	char process[16];   /* the name of its process (comm) */
	char program[24];
	char agent_program[24]; /* its program in an agent */
};

extern const struct role_names role_names[ROLE_COUNT];

#endif
