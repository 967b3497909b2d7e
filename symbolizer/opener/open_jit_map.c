/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see open_jit_map.h. */
#include "symbolizer/opener/open_jit_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "ipc/messages.h"
#include "symbolizer/opener/living_thread.h"
#include "symbolizer/opener/open_file.h"

/* Finds out which pid a process has in its innermost pid namespace: the last number of the line
 * "NStgid:\t4711\t7" in status (proc_pid_status(5)). The kernel escapes newlines in the name of the
 * process, so that is no line of its own. Returns 0 or a negative errno. */
static int read_own_pid(int process, uint32_t *pid)
{
	static const char label[] = "NStgid:";
	_cleanup_close_ int fd = openat(process, "status", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	_cleanup_fclose_ FILE *status = fdopen(fd, "re");
	if (!status)
		return -errno;
	(void)TAKE_FD(fd);
	while (getline(&line, &room, status) > 0) {
		if (strncmp(line, label, strlen(label)) != 0)
			continue;
		const char *last = strrchr(line, '\t');
		*pid = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
		return *pid ? 0 : -ESRCH;
	}
	return -ESRCH;
}

static bool may_name_code(const struct stat *file, uint32_t uid)
{
	return (file->st_uid == uid && file->st_mode & S_IRUSR) ||
	       (file->st_uid == 0 && file->st_mode & S_IROTH);
}

/* Opens the jitdump of a process that knows itself by `pid`. */
static int open_dump(uint32_t tgid, uint32_t uid, uint32_t pid, bool by_name)
{
	struct msg_open_file request;
	char name[32];
	struct stat st;
	bool same_file;

	snprintf(name, sizeof(name), "/jit-%u.dump", pid);
	int r = open_file_find_executable(tgid, name, &request);
	if (r < 0)
		return r;
	_cleanup_close_ int fd = by_name ? open_file_named(&request, &same_file)
					 : open_file_mapped(&request, &same_file);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return may_name_code(&st, uid) ? TAKE_FD(fd) : -EACCES;
}

/* Opens the map below the root of a process that knows itself by `pid`. */
static int open_map(int process, uint32_t uid, uint32_t pid)
{
	char path[64];
	struct stat st;
	_cleanup_close_ int root = openat(process, "root", O_PATH | O_CLOEXEC);

	if (root < 0)
		return -errno;
	snprintf(path, sizeof(path), "tmp/perf-%u.map", pid);
	_cleanup_close_ int path_fd = open_file_walk(root, path, &uid);
	if (path_fd < 0)
		return path_fd;
	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!may_name_code(&st, uid))
		return -EACCES;
	return open_file_again(path_fd, major(st.st_dev), minor(st.st_dev));
}

int open_jit_map(uint32_t tgid, uint32_t uid, bool by_name, bool *is_dump)
{
	uint32_t pid = 0;
	_cleanup_close_ int process = living_thread_open(tgid);

	if (process < 0 || uid == TENANT_UID_UNKNOWN)
		return process == -ENOENT || process >= 0 ? -ESRCH : process;
	int r = read_own_pid(process, &pid);
	if (r < 0)
		return r;
	const int dump = open_dump(tgid, uid, pid, by_name);
	*is_dump = dump >= 0;
	return dump >= 0 ? dump : open_map(process, uid, pid);
}
