/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories in which debug files are searched: /usr/lib/debug, where distributions put them,
 * and those that the user names. The CLI opens them, and the opener gets the descriptors. Which
 * files it opens below them is in symbolizer/opener/open_debug.h.
 */
#ifndef CONTROL_DEBUG_DIRECTORIES_H
#define CONTROL_DEBUG_DIRECTORIES_H

#include "common/limits.h"

enum {
	/* Those that the user may name. */
	DEBUG_DIRECTORIES_MORE_MAX = LIMIT_DEBUG_DIRECTORIES - 1
};

struct debug_directories {
	unsigned int count;
	int fds[LIMIT_DEBUG_DIRECTORIES];
};

/* Opens /usr/lib/debug, if it exists. */
void debug_directories_init(struct debug_directories *directories);

/* Opens another directory. Returns 0, a negative errno, or -ENOSPC if there are too many. */
int debug_directories_add(struct debug_directories *directories, const char *path);

void debug_directories_fini(struct debug_directories *directories);

#endif
