/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"

int shared_memory_new_growing(const char *name, uint64_t size)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int shared_memory_new(const char *name, uint64_t size)
{
	_cleanup_close_ int fd = shared_memory_new_growing(name, size);

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}
