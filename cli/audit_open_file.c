/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit_open_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/bpf_directory.h"
#include "common/cleanup.h"

enum {
	/* /dev/null (Documentation/admin-guide/devices.txt of Linux). */
	NULL_MAJOR = 1,
	NULL_MINOR = 3,
};

/* How the kernel names files without a path. A path begins with a slash or a parenthesis. */
static const struct {
	const char *name;
	enum audit_file_kind kind;
} anonymous[] = {
    {"anon_inode:bpf-prog", AUDIT_FILE_BPF_PROGRAM},
    {"anon_inode:bpf-map", AUDIT_FILE_BPF_MAP},
    {"anon_inode:btf", AUDIT_FILE_BPF_TYPES},
    {"anon_inode:bpf_link", AUDIT_FILE_BPF_LINK},
    {"anon_inode:[perf_event]", AUDIT_FILE_PERF_EVENT},
    {"anon_inode:[eventpoll]", AUDIT_FILE_EPOLL},
    {"anon_inode:[eventfd]", AUDIT_FILE_EVENTFD},
    {"anon_inode:[signalfd]", AUDIT_FILE_SIGNALFD},
};

int audit_open_process(pid_t pid)
{
	const int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

static int socket_option(int fd, int option, int *value)
{
	socklen_t size = sizeof(*value);

	return getsockopt(fd, SOL_SOCKET, option, value, &size) < 0 ? -errno : 0;
}

static int read_socket(int fd, struct audit_socket *found)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	int listens = 0;
	int r = socket_option(fd, SO_DOMAIN, &found->family);

	if (!r)
		r = socket_option(fd, SO_TYPE, &found->type);
	if (!r)
		r = socket_option(fd, SO_PROTOCOL, &found->protocol);
	if (!r)
		r = socket_option(fd, SO_ACCEPTCONN, &listens);
	if (r)
		return r;
	found->listens = listens;
	if (found->family == AF_UNIX &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
		found->peer_pid = peer.pid;
		found->peer_uid = peer.uid;
	}
	return 0;
}

static int read_bpf_info(int fd, void *info, uint32_t size)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = size;
	attr.info.info = (uint64_t)(uintptr_t)info;
	return syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

static int read_program(int fd, struct audit_bpf *found)
{
	struct bpf_prog_info info;

	memset(&info, 0, sizeof(info));
	const int r = read_bpf_info(fd, &info, sizeof(info));
	if (r)
		return r;
	*found = (struct audit_bpf){.id = info.id, .type = info.type};
	snprintf(found->name, sizeof(found->name), "%.*s", BPF_OBJ_NAME_LEN, info.name);
	memcpy(found->tag, info.tag, sizeof(found->tag));
	return 0;
}

static int read_map(int fd, struct audit_bpf *found)
{
	struct bpf_map_info info;

	memset(&info, 0, sizeof(info));
	const int r = read_bpf_info(fd, &info, sizeof(info));
	if (r)
		return r;
	*found = (struct audit_bpf){.id = info.id, .type = info.type};
	snprintf(found->name, sizeof(found->name), "%.*s", BPF_OBJ_NAME_LEN, info.name);
	return 0;
}

static int read_link(int fd, struct audit_bpf *found)
{
	struct bpf_link_info info;

	memset(&info, 0, sizeof(info));
	const int r = read_bpf_info(fd, &info, sizeof(info));
	if (!r)
		*found = (struct audit_bpf){.id = info.id, .type = info.type};
	return r;
}

static bool is_closed(const struct stat *st, uid_t owner)
{
	return st->st_uid == owner && !(st->st_mode & (S_IRWXG | S_IRWXO));
}

/* Counts the pins of a directory and checks whose they are. The descriptor has the position at
 * which its owner reads, so the directory is opened again. */
static int read_pins(int fd, struct audit_pins *found)
{
	const struct dirent *entry;
	_cleanup_close_ int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *directory = again < 0 ? NULL : fdopendir(again);
	struct stat st, pin;

	if (!directory)
		return -errno;
	again = -1;
	if (fstat(fd, &st) < 0)
		return -errno;
	*found = (struct audit_pins){.closed = is_closed(&st, st.st_uid)};
	while ((entry = readdir(directory))) {
		if (entry->d_name[0] == '.' ||
		    fstatat(fd, entry->d_name, &pin, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		found->count++;
		found->closed &= is_closed(&pin, st.st_uid);
	}
	return 0;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && !strcmp(text + length - end_length, end);
}

static enum audit_file_kind kind_of_regular(int fd, const char *name)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
	    (ends_with(name, "/mem") || ends_with(name, "/environ")))
		return AUDIT_FILE_PROCESS_MEMORY;
	return AUDIT_FILE_REGULAR;
}

static enum audit_file_kind kind_of(int fd, const struct stat *st, const char *name)
{
	for (size_t i = 0; i < sizeof(anonymous) / sizeof(anonymous[0]); i++) {
		if (!strcmp(name, anonymous[i].name))
			return anonymous[i].kind;
	}
	if (S_ISSOCK(st->st_mode))
		return AUDIT_FILE_SOCKET;
	if (S_ISDIR(st->st_mode))
		return is_in_bpf_fs(fd) ? AUDIT_FILE_PINS : AUDIT_FILE_DIRECTORY;
	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(NULL_MAJOR, NULL_MINOR))
		return AUDIT_FILE_NULL;
	return S_ISREG(st->st_mode) ? kind_of_regular(fd, name) : AUDIT_FILE_OTHER;
}

/* Reads what the kernel shows in /proc/PID/fd. */
static int read_name(pid_t pid, int number, char *name, size_t size)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, number);
	const ssize_t n = readlink(link, name, size - 1);
	if (n < 0)
		return errno == ENOENT ? -EBADF : -errno;
	name[n] = 0;
	return 0;
}

int audit_open_file_read(int process, pid_t pid, int number, struct audit_open_file *file)
{
	struct stat st;
	int r = read_name(pid, number, file->name, sizeof(file->name));

	if (r)
		return r;
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	if (fd < 0)
		return -errno;
	const int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fstat(fd, &st) < 0)
		return -errno;
	file->kind = kind_of(fd, &st, file->name);
	/* By a descriptor of O_PATH nothing can be read or written, and nobody can write to memory
	 * that is sealed. Only memfds have seals. */
	const int seals = fcntl(fd, F_GET_SEALS);
	file->writable = !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY &&
			 !(seals > 0 && seals & F_SEAL_WRITE);
	file->id = (struct audit_file_id){st.st_dev, st.st_ino};
	file->owner = st.st_uid;
	if (file->kind == AUDIT_FILE_SOCKET)
		r = read_socket(fd, &file->socket);
	else if (file->kind == AUDIT_FILE_BPF_PROGRAM)
		r = read_program(fd, &file->bpf);
	else if (file->kind == AUDIT_FILE_BPF_MAP)
		r = read_map(fd, &file->bpf);
	else if (file->kind == AUDIT_FILE_BPF_LINK)
		r = read_link(fd, &file->bpf);
	else if (file->kind == AUDIT_FILE_PINS)
		r = read_pins(fd, &file->pins);
	return r;
}
