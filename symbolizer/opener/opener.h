/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the opener. */
#ifndef SYMBOLIZER_OPENER_OPENER_H
#define SYMBOLIZER_OPENER_OPENER_H

#include <dirent.h>
#include <stdbool.h>

#include "role/role.h"
#include "symbolizer/opener/lane.h"
#include "symbolizer/opener/memory_permits.h"
#include "symbolizer/opener/opening_quarantine.h"

enum opener_lane {
	LANE_USUAL,
	LANE_WITHOUT_DISK, /* files on file systems without a disk, where a server may not answer,
			      and debug files */
	LANE_COUNT,
};

struct opener {
	struct role role;
	DIR *proc;				   /* /proc, opened before the sandbox */
	bool scanning;				   /* until all processes have been requested */
	bool adding_scans;			   /* scan_some() is on the stack */
	bool environment_allowed, memory_allowed;  /* by CONFIGURE_OPENER */
	char kernel_version[MSG_DEBUG_LINK_BYTES]; /* "": unknown */
	struct memory_permits permits;
	struct lane_owner owner; /* of both lanes */
	struct lane lanes[LANE_COUNT];
};

#endif
