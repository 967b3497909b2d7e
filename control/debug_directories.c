/* SPDX-License-Identifier: Apache-2.0 */
#include "control/debug_directories.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void debug_directories_init(struct debug_directories *directories)
{
	directories->count = 0;
	/* On most machines it is not there. */
	debug_directories_add(directories, "/usr/lib/debug");
}

int debug_directories_add(struct debug_directories *directories, const char *path)
{
	if (directories->count == LIMIT_DEBUG_DIRECTORIES)
		return -ENOSPC;
	const int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	directories->fds[directories->count++] = fd;
	return 0;
}

void debug_directories_fini(struct debug_directories *directories)
{
	for (unsigned int i = 0; i < directories->count; i++)
		close(directories->fds[i]);
	directories->count = 0;
}
