/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the opener. */
#ifndef SYMBOLIZER_OPENER_OPENER_H
#define SYMBOLIZER_OPENER_OPENER_H

#include <dirent.h>
#include <stdbool.h>

#include "role/role.h"
#include "symbolizer/opener/memory_permits.h"

struct opener {
	struct role role;
	DIR *proc; /* /proc, opened before the sandbox */
	bool environment_allowed;
	struct memory_permits permits;
};

#endif
