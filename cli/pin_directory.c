/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pin_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bpf_directory.h"
#include "common/cleanup.h"

/* Opens the directory. Returns a descriptor or a negative errno. */
static int open_directory(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	return is_in_bpf_fs(fd) ? TAKE_FD(fd) : -EMEDIUMTYPE;
}

/* Locks the directory until the descriptor is closed. A loader that uses it has it locked. */
static int lock_directory(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

int pin_directory_make(const char *path, uid_t uid)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	_cleanup_close_ int fd = open_directory(path);
	if (fd < 0) {
		const int error = fd;

		/* It may have been made just now. */
		rmdir(path);
		return error;
	}
	const int r = lock_directory(fd);
	if (r < 0)
		return r;
	if (fchmod(fd, 0700) < 0 || fchown(fd, uid, (gid_t)uid) < 0)
		return -errno;
	return 0;
}

static int clear(int fd)
{
	const struct dirent *entry;
	int removed = 0;
	_cleanup_close_ int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	_cleanup_closedir_ DIR *directory = copy < 0 ? NULL : fdopendir(copy);

	if (!directory)
		return -errno;
	copy = -1;
	while ((entry = readdir(directory)))
		removed += unlinkat(fd, entry->d_name, 0) == 0;
	return removed;
}

int pin_directory_clear(const char *path)
{
	_cleanup_close_ int fd = open_directory(path);

	return fd < 0 ? fd : clear(fd);
}

int pin_directory_clear_unused(const char *path)
{
	_cleanup_close_ int fd = open_directory(path);

	if (fd < 0)
		return fd;
	const int r = lock_directory(fd);
	return r < 0 ? r : clear(fd);
}
