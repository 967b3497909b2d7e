/* SPDX-License-Identifier: Apache-2.0 */
#include "common/roles.h"

const struct role_names role_names[ROLE_COUNT] = {
#define ROLE(id, directory, user, process, program, agent_program)                                 \
	{directory, user, process, program, agent_program},
#include "common/roles.def"
#undef ROLE
};

/* C accepts a text that fits only without its NUL. */
#define FITS(text, member) (sizeof(text) <= sizeof(role_names[0].member))
#define ROLE(id, where, uid_of, comm, file, agent_file)                                            \
	_Static_assert(FITS(where, directory) && FITS(uid_of, user) && FITS(comm, process) &&      \
			   FITS(file, program) && FITS(agent_file, agent_program),                 \
		       "a name of the role " #id " is too long");
#include "common/roles.def"
#undef ROLE
