/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/opener/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"

/* O_NONBLOCK: a FIFO in the place of the file must not hold us. */
enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

int open_file_proc(unsigned int tgid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/%s", tgid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* File systems on which a read may wait for somebody else for ever: not touched further. Magic numbers of linux/magic.h and of the
 * file systems' own sources (FUSE 0x65735546, CIFS 0xff534d42, SMB2 0xfe534d42, 9p 0x01021997, Ceph 0x00c36400). */
static bool file_system_is_local(int fd)
{
	static const unsigned long remote[] = {NFS_SUPER_MAGIC, 0x65735546ul, 0xff534d42ul, 0xfe534d42ul,
					       SMB_SUPER_MAGIC, CODA_SUPER_MAGIC, AFS_SUPER_MAGIC, 0x00c36400ul};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++) {
		if ((unsigned long)fs.f_type == remote[i])
			return false;
	}
	return true;
}

/* On these, the device and inode in maps are not those that stat gives: layers below, subvolumes. */
static bool file_system_hides_identity(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == OVERLAYFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC);
}

/* 0 if `fd` is a regular file and, as far as that can be told, the one requested. */
static int check_identity(int fd, const struct msg_open_file *request, bool *same_file)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (major(st.st_dev) == request->device_major && minor(st.st_dev) == request->device_minor &&
	    st.st_ino == request->inode) {
		*same_file = true;
		return 0;
	}
	if (!file_system_hides_identity(fd))
		return -ESTALE;
	*same_file = false;
	return 0;
}

/* "start-end perms offset major:minor inode path\n", the kernel's own text (fs/proc/task_mmu.c); a newline in a path is written as \012. */
static bool maps_line_matches(const char *line, const struct msg_open_file *request, const char **path)
{
	char *at;
	unsigned long start = strtoul(line, &at, 16);

	if (*at != '-')
		return false;
	unsigned long end = strtoul(at + 1, &at, 16);
	if (start > request->address_start || end <= request->address_start)
		return false;
	/* Permissions, offset, device. */
	for (int field = 0; field < 3; field++) {
		at = strchr(at + 1, ' ');
		if (!at)
			return false;
	}
	if (strtoull(at, &at, 10) != request->inode)
		return false;
	*path = at + strspn(at, " ");
	return **path == '/';
}

static void unescape_newlines(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		if (!strncmp(from, "\\012", 4)) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
}

/* The path of the requested mapping, as the kernel shows it. */
static int find_path(const struct msg_open_file *request, char *path, size_t size)
{
	_cleanup_close_ int fd = open_file_proc(request->tgid, "maps");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (fd < 0)
		return fd;
	_cleanup_fclose_ FILE *maps = fdopen(fd, "re");
	if (!maps)
		return -errno;
	(void)TAKE_FD(fd);
	for (ssize_t n; (n = getline(&line, &room, maps)) > 0;) {
		const char *found;

		if (line[n - 1] == '\n')
			line[n - 1] = 0;
		if (!maps_line_matches(line, request, &found))
			continue;
		if (strlen(found) >= size)
			return -ENAMETOOLONG;
		memcpy(path, found, strlen(found) + 1);
		unescape_newlines(path);
		return 0;
	}
	return -ENOENT;
}

static int open_in_root(const struct msg_open_file *request, const char *path)
{
	char root[64];
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

	snprintf(root, sizeof(root), "/proc/%u/root", request->tgid);
	_cleanup_close_ int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	/* First without opening: the open itself may hang on FUSE. */
	_cleanup_close_ int path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (path_fd < 0)
		return -errno;
	if (!file_system_is_local(path_fd))
		return -EOPNOTSUPP;
	how.flags = OPEN_FLAGS;
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static int open_executable(const struct msg_open_file *request)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/exe", request->tgid);
	_cleanup_close_ int path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	if (!file_system_is_local(path_fd))
		return -EOPNOTSUPP;
	int fd = open(path, OPEN_FLAGS);
	return fd < 0 ? -errno : fd;
}

int open_file_mapped(const struct msg_open_file *request, bool *same_file)
{
	char path[PATH_MAX];
	_cleanup_close_ int exe = open_executable(request);

	if (exe >= 0 && check_identity(exe, request, same_file) == 0 && *same_file)
		return TAKE_FD(exe);
	int r = find_path(request, path, sizeof(path));
	if (r < 0)
		return r;
	_cleanup_close_ int fd = open_in_root(request, path);
	if (fd < 0)
		return fd;
	r = check_identity(fd, request, same_file);
	return r < 0 ? r : TAKE_FD(fd);
}
