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

struct role_names {
	const char *directory; /* of its socket, in the run directory */
	const char *user;      /* its system user, where the host has it */
	const char *process;   /* the name of its process (comm) */
	const char *program, *agent_program;
};

static const struct role_names role_names[ROLE_COUNT] __attribute__((unused)) = {
#define ROLE(id, directory, user, process, program, agent_program)                                 \
	{directory, user, process, program, agent_program},
#include "common/roles.def"
#undef ROLE
};

#endif
