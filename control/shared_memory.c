/* SPDX-License-Identifier: Apache-2.0 */
#include "control/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

bool shared_memory_has_size(int fd, uint64_t size)
{
	const int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;

	return seals >= 0 && (seals & wanted) == wanted && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == size;
}
