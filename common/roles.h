/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_ROLES_H
#define COMMON_ROLES_H

enum role_id {
#define ROLE(id, directory, user, process) ROLE_##id,
#include "common/roles.def"
#undef ROLE
	ROLE_COUNT
};

/* The bit of a role in a set of roles. */
#define ROLE_BIT(role) (1u << (role))

struct role_names {
	const char *directory, *user, *process;
};

static const struct role_names role_names[ROLE_COUNT] __attribute__((unused)) = {
#define ROLE(id, directory, user, process) {directory, user, process},
#include "common/roles.def"
#undef ROLE
};

#endif
