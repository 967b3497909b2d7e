/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/opener/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "symbolizer/opener/living_thread.h"

int open_file_proc(unsigned int tgid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/%s", tgid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int open_file_of_memory(unsigned int tgid, const char *name)
{
	_cleanup_close_ int process = living_thread_open(tgid);

	if (process < 0)
		return process;
	int fd = openat(process, name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

uint32_t open_file_uid(unsigned int tgid)
{
	char path[32];
	struct stat st;

	/* The directory belongs to the effective uid, also if the files in it belong to root
	 * because the process may not be read (task_dump_owner in fs/proc/base.c). */
	snprintf(path, sizeof(path), "/proc/%u", tgid);
	return stat(path, &st) < 0 ? TENANT_UID_UNKNOWN : st.st_uid;
}

/* The numbers that linux/magic.h lacks, from the sources of Linux and OpenZFS. */
#define XFS_MAGIC 0x58465342ul
#define ZFS_MAGIC 0x2fc12fc1ul
#define BCACHEFS_MAGIC 0xca451a4eul
#define JFS_MAGIC 0x3153464aul
#define UDF_MAGIC 0x15013346ul
#define NTFS_MAGIC 0x7366746eul

/* The file systems on which a read waits for this machine alone. EXT4_SUPER_MAGIC is also that of
 * ext2 and ext3. */
static const unsigned long local_file_systems[] = {
    TMPFS_MAGIC,	   RAMFS_MAGIC,	      HUGETLBFS_MAGIC,
    OVERLAYFS_SUPER_MAGIC, EXT4_SUPER_MAGIC,  XFS_MAGIC,
    BTRFS_SUPER_MAGIC,	   F2FS_SUPER_MAGIC,  ZFS_MAGIC,
    BCACHEFS_MAGIC,	   JFS_MAGIC,	      REISERFS_SUPER_MAGIC,
    NILFS_SUPER_MAGIC,	   SQUASHFS_MAGIC,    EROFS_SUPER_MAGIC_V1,
    CRAMFS_MAGIC,	   ISOFS_SUPER_MAGIC, UDF_MAGIC,
    MSDOS_SUPER_MAGIC,	   EXFAT_SUPER_MAGIC, NTFS_MAGIC,
    ECRYPTFS_SUPER_MAGIC,
};

/* Those that have no disk of their own, by the names in /proc/self/mountinfo. */
static const char *const local_without_disk[] = {"tmpfs", "ramfs",    "hugetlbfs", "btrfs",
						 "zfs",	  "bcachefs", "ecryptfs",  "overlay"};

/* Returns the kind of the file system of a file or a directory, or 0. */
static unsigned long file_system_of(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 ? 0 : (unsigned long)fs.f_type;
}

/* Returns whether a read from a file system of this kind cannot wait for another machine or
 * process. One that is not known may do so, and so may the layers of an overlay
 * (device_is_local()). */
static bool is_local(unsigned long kind)
{
	for (size_t i = 0; i < sizeof(local_file_systems) / sizeof(local_file_systems[0]); i++) {
		if (kind == local_file_systems[i])
			return true;
	}
	return false;
}

/* Returns whether a line of /proc/self/mountinfo is of a local file system with this device:
 * "36 35 0:34 / /mnt rw,noatime shared:1 - tmpfs source options" (proc_pid_mountinfo(5)). In paths
 * and names, which users may choose, the kernel escapes blanks. */
static bool mountinfo_line_matches(const char *line, const char *device)
{
	const char *at = line;

	for (int field = 0; field < 2 && at; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at || strncmp(at, device, strlen(device)) != 0)
		return false;
	const char *kind = strstr(at, " - ");
	for (size_t i = 0; kind && i < sizeof(local_without_disk) / sizeof(local_without_disk[0]);
	     i++) {
		const size_t length = strlen(local_without_disk[i]);

		if (!strncmp(kind + 3, local_without_disk[i], length) && kind[3 + length] == ' ')
			return true;
	}
	return false;
}

/* Returns whether a device is a disk, or is that of a local file system without one, or of an
 * overlay, that is mounted where this role sees it. */
static bool device_is_local(uint32_t major_number, uint32_t minor_number)
{
	_cleanup_free_ char *line = NULL;
	char device[32];
	size_t room = 0;

	if (major_number)
		return true;
	_cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	snprintf(device, sizeof(device), "%u:%u ", major_number, minor_number);
	while (mounts && getline(&line, &room, mounts) > 0) {
		if (mountinfo_line_matches(line, device))
			return true;
	}
	return false;
}

/* Returns whether an open file consists of extents of a disk: an overlay passes the question on to
 * the layer of the file, and FUSE has no answer to it. */
static bool has_extents(int fd)
{
	struct fiemap extents = {.fm_length = 1};

	return ioctl(fd, FS_IOC_FIEMAP, &extents) == 0;
}

/* Returns whether the layer in which an open file of an overlay is, is local. A user may put an
 * overlay over a FUSE mount of his own, whose server answers when it likes, but only in a mount
 * namespace of his own. The device is what the kernel reports for the mapping: that of the layer,
 * or on newer kernels that of the overlay. */
static bool layer_is_local(int fd, uint32_t device_major, uint32_t device_minor)
{
	return device_is_local(device_major, device_minor) || has_extents(fd);
}

/* Returns whether the file system reports other device and inode numbers for a mapping than for the
 * file. Overlayfs does because of its layers, btrfs because of its subvolumes. */
static bool file_system_hides_identity(int fd)
{
	const unsigned long kind = file_system_of(fd);

	return kind == OVERLAYFS_SUPER_MAGIC || kind == BTRFS_SUPER_MAGIC;
}

/* Checks that `fd` is the file that was requested, where the numbers are reliable. */
static int check_identity(int fd, const struct msg_open_file *request, bool *same_file)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (major(st.st_dev) == request->device_major &&
	    minor(st.st_dev) == request->device_minor && st.st_ino == request->inode) {
		*same_file = true;
		return 0;
	}
	if (!file_system_hides_identity(fd))
		return -ESTALE;
	*same_file = false;
	return 0;
}

struct mapping_found {
	uint64_t start, end, inode;
	uint32_t device_major, device_minor;
	char *path; /* in the line: the spaces before the path */
};

enum {
	/* Lines of maps in which a file is searched, which take some 3 ms. Large JVMs
	 * and browsers have some thousand, a process that wants to keep the helper busy 65,530. */
	SEARCHED_LINES_MAX = 4096,
};

/* Which mapping is wanted: the one that contains the address; or, if `inode` is not 0, the first
 * one of a file with this inode; or, if `end` is not NULL, the first executable one of a file whose
 * path ends like that. */
struct mapping_wanted {
	uint64_t address, inode;
	const char *end;
};

static bool is_searched(const struct mapping_wanted *wanted)
{
	return wanted->inode || wanted->end;
}

/* Returns whether a path of /proc/PID/maps ends like this. The kernel appends " (deleted)" to that
 * of a file that is gone, and escapes newlines in it. */
static bool path_ends_with(const char *path, const char *end)
{
	static const char deleted[] = " (deleted)";
	size_t length = strcspn(path, "\n");
	const size_t suffix = sizeof(deleted) - 1, end_length = strlen(end);

	if (length >= suffix && !strncmp(path + length - suffix, deleted, suffix))
		length -= suffix;
	return length >= end_length && !strncmp(path + length - end_length, end, end_length);
}

/*
 * Returns whether a line of /proc/PID/maps describes the mapping that is wanted. Changed
 * permissions may have split the mapping since it was reported. The kernel writes the line:
 * "start-end perms offset major:minor inode path" (fs/proc/task_mmu.c).
 */
static bool maps_line_matches(char *line, const struct mapping_wanted *wanted,
			      struct mapping_found *found)
{
	char *at;

	found->start = strtoull(line, &at, 16);
	if (*at != '-')
		return false;
	found->end = strtoull(at + 1, &at, 16);
	if (!is_searched(wanted) &&
	    (found->start > wanted->address || found->end <= wanted->address))
		return false;
	const char *permissions = at;
	/* Permissions and offset. */
	for (int field = 0; field < 2 && at; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	found->device_major = (uint32_t)strtoul(at, &at, 16);
	if (*at != ':')
		return false;
	found->device_minor = (uint32_t)strtoul(at + 1, &at, 16);
	found->inode = strtoull(at, &found->path, 10);
	if (wanted->end)
		return permissions[3] == 'x' && path_ends_with(found->path, wanted->end);
	return !wanted->inode || found->inode == wanted->inode;
}

/* Finds a mapping as it is now. `name`, unless NULL, receives its path, which the caller frees. */
static int find_mapping(int process, const struct mapping_wanted *wanted,
			struct mapping_found *found, char **name)
{
	_cleanup_close_ int fd = openat(process, "maps", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (fd < 0)
		return -errno;
	_cleanup_fclose_ FILE *maps = fdopen(fd, "re");
	if (!maps)
		return -errno;
	(void)TAKE_FD(fd);
	for (unsigned int i = 0; getline(&line, &room, maps) > 0; i++) {
		if (is_searched(wanted) && i == SEARCHED_LINES_MAX)
			return -E2BIG;
		if (!maps_line_matches(line, wanted, found))
			continue;
		if (!name)
			return 0;
		found->path[strcspn(found->path, "\n")] = 0;
		*name = strdup(found->path + strspn(found->path, " "));
		return *name ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

/* Opens the link to the file that is mapped at an address, under any name and in any root. O_PATH
 * does not open the file itself, which may hang if its file system is not local. */
static int open_mapping_link(int process, uint64_t start, uint64_t end)
{
	char path[64];

	snprintf(path, sizeof(path), "map_files/%llx-%llx", (unsigned long long)start,
		 (unsigned long long)end);
	int fd = openat(process, path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int open_file_again(int path_fd, uint32_t device_major, uint32_t device_minor)
{
	char path[64];
	struct stat st;
	const unsigned long kind = file_system_of(path_fd);

	if (!is_local(kind))
		return -EOPNOTSUPP;
	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return kind != OVERLAYFS_SUPER_MAGIC || layer_is_local(fd, device_major, device_minor)
		   ? TAKE_FD(fd)
		   : -EOPNOTSUPP;
}

/* Opens the file that is mapped at an address. */
static int open_mapping(int process, uint64_t start, uint64_t end,
			const struct msg_open_file *request)
{
	_cleanup_close_ int link = open_mapping_link(process, start, end);

	return link < 0 ? link
			: open_file_again(link, request->device_major, request->device_minor);
}

int open_file_mapped(const struct msg_open_file *request, bool *same_file)
{
	struct mapping_found found;
	_cleanup_close_ int process = living_thread_open(request->tgid);

	if (process < 0)
		return process;
	_cleanup_close_ int fd =
	    open_mapping(process, request->address_start, request->address_end, request);
	if (fd == -ENOENT) {
		const struct mapping_wanted wanted = {.address = request->address_start};
		int r = find_mapping(process, &wanted, &found, NULL);

		if (r < 0)
			return r;
		if (found.inode != request->inode)
			return -ENOENT;
		fd = open_mapping(process, found.start, found.end, request);
	}
	if (fd < 0)
		return fd;
	int r = check_identity(fd, request, same_file);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Checks that the process maps the file at [start, end). Returns 0 or a negative errno. */
static int check_mapped(int process, const struct msg_allow_memory *allowed, uint64_t start,
			uint64_t end)
{
	struct stat st;
	_cleanup_close_ int link = open_mapping_link(process, start, end);

	if (link < 0)
		return link;
	if (!is_local(file_system_of(link)))
		return -EOPNOTSUPP;
	if (fstat(link, &st) < 0)
		return -errno;
	return major(st.st_dev) == allowed->device_major &&
		       minor(st.st_dev) == allowed->device_minor && st.st_ino == allowed->inode
		   ? 0
		   : -ESTALE;
}

int open_file_memory(const struct msg_allow_memory *allowed)
{
	const struct mapping_wanted wanted = {.address = allowed->address_start};
	struct mapping_found at = {.start = allowed->address_start, .end = allowed->address_end};
	_cleanup_close_ int process = living_thread_open(allowed->tgid);

	if (process < 0)
		return process;
	int r = check_mapped(process, allowed, at.start, at.end);
	if (r == -ENOENT) {
		r = find_mapping(process, &wanted, &at, NULL);
		if (!r)
			r = check_mapped(process, allowed, at.start, at.end);
	}
	if (r < 0)
		return r;
	_cleanup_close_ int memory = openat(process, "mem", O_RDONLY | O_CLOEXEC);
	if (memory < 0)
		return -errno;
	/* The process may have executed another program between the check and the opening. */
	r = check_mapped(process, allowed, at.start, at.end);
	return r < 0 ? r : TAKE_FD(memory);
}

int open_file_name(uint32_t tgid, uint64_t inode, char **name)
{
	const struct mapping_wanted wanted = {.inode = inode};
	struct mapping_found found;
	_cleanup_close_ int process = living_thread_open(tgid);

	if (process < 0 || !inode)
		return process < 0 ? process : -EINVAL;
	return find_mapping(process, &wanted, &found, name);
}

int open_file_find_executable(uint32_t tgid, const char *end, struct msg_open_file *request)
{
	const struct mapping_wanted wanted = {.end = end};
	struct mapping_found found;
	_cleanup_close_ int process = living_thread_open(tgid);

	if (process < 0)
		return process;
	const int r = find_mapping(process, &wanted, &found, NULL);
	if (r < 0)
		return r;
	*request = (struct msg_open_file){.tgid = tgid,
					  .address_start = found.start,
					  .address_end = found.end,
					  .inode = found.inode,
					  .device_major = found.device_major,
					  .device_minor = found.device_minor};
	return 0;
}

/* Returns whether a user may enter a directory, by its mode; groups do not count. */
static bool may_enter(int directory, uint32_t uid)
{
	struct stat st;

	return fstat(directory, &st) == 0 &&
	       (st.st_mode & S_IXOTH || (st.st_uid == uid && st.st_mode & S_IXUSR));
}

int open_file_walk(int root, char *path, const uint32_t *uid)
{
	_cleanup_close_ int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
	char *saved;

	for (char *name = strtok_r(path, "/", &saved); name && at >= 0;
	     name = strtok_r(NULL, "/", &saved)) {
		/* The kernel resolves these before it writes a path. */
		if (!strcmp(name, "..") || !strcmp(name, "."))
			return -EINVAL;
		if (!is_local(file_system_of(at)))
			return -EOPNOTSUPP;
		if (uid && !may_enter(at, *uid))
			return -EACCES;
		int next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(at);
		at = next;
	}
	return at < 0 ? -errno : TAKE_FD(at);
}

/* Opens the file at a path below `root` for reading. `path` is modified. */
static int walk_path(int root, char *path, const struct msg_open_file *request)
{
	_cleanup_close_ int at = open_file_walk(root, path, NULL);

	return at < 0 ? at : open_file_again(at, request->device_major, request->device_minor);
}

static int open_checked(int fd, const struct msg_open_file *request, bool *same_file)
{
	_cleanup_close_ int checked = fd;

	if (checked < 0)
		return checked;
	int r = check_identity(checked, request, same_file);
	return r < 0 ? r : TAKE_FD(checked);
}

/* Opens the program of a process. Its directories need not be accessible. */
static int open_program(int process, const struct msg_open_file *request, bool *same_file)
{
	_cleanup_close_ int path_fd = openat(process, "exe", O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	_cleanup_close_ int fd =
	    open_checked(open_file_again(path_fd, request->device_major, request->device_minor),
			 request, same_file);
	/* Where the numbers are not reliable, the file is opened by its name instead. */
	return fd >= 0 && !*same_file ? -ESTALE : TAKE_FD(fd);
}

/* Opens a file by its name below the root `root_name` in the directory `at`. */
static int open_below(int at, const char *root_name, const char *name,
		      const struct msg_open_file *request, bool *same_file)
{
	_cleanup_free_ char *path = strdup(name);
	_cleanup_close_ int root = openat(at, root_name, O_PATH | O_CLOEXEC);

	if (!path || root < 0)
		return path ? -errno : -ENOMEM;
	return open_checked(walk_path(root, path, request), request, same_file);
}

int open_file_named(const struct msg_open_file *request, bool *same_file)
{
	_cleanup_free_ char *name = NULL;
	const struct mapping_wanted wanted = {.address = request->address_start};
	struct mapping_found found;
	_cleanup_close_ int process = living_thread_open(request->tgid);

	if (process < 0)
		return process;
	int fd = open_program(process, request, same_file);
	if (fd >= 0)
		return fd;
	int r = find_mapping(process, &wanted, &found, &name);
	if (r < 0)
		return r;
	if (found.inode != request->inode || name[0] != '/')
		return -ENOENT;
	fd = open_below(process, "root", name, request, same_file);
	if (fd != -ENOENT)
		return fd;
	/* If the process has another root on the same mounts, paths are relative to our root. */
	fd = open_below(AT_FDCWD, "/", name, request, same_file);
	if (fd >= 0 && !*same_file) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}
