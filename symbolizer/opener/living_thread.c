/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see living_thread.h. */
#include "symbolizer/opener/living_thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

enum {
	/* Threads that ended while this role looked at them. */
	THREADS_TRIED = 16,
};

/* Opens /proc/TID. */
static int task_open(uint32_t tid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u", tid);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Returns whether the task has memory. statm begins with the number of its pages. */
static bool task_has_memory(int task)
{
	_cleanup_close_ int fd = openat(task, "statm", O_RDONLY | O_CLOEXEC);
	char first;

	return fd >= 0 && read(fd, &first, 1) == 1 && first != '0';
}

/* Opens /proc/TID for a name in /proc/PID/task, if that is a thread with memory. */
static int thread_open(int tasks, const char *name)
{
	struct stat st;
	_cleanup_close_ int thread = task_open((uint32_t)strtoul(name, NULL, 10));

	/* "." and ".." are not numbers, and there is no task 0. */
	if (thread < 0 || !task_has_memory(thread))
		return -ESRCH;
	/* If the number was reused by a thread of another process, the directory of this process no
	 * longer has it. If it was reused by one of this process after that, `thread` has ended. */
	return fstatat(tasks, name, &st, 0) < 0 ? -errno : TAKE_FD(thread);
}

/* Finds a thread with memory of a process whose first thread has none. */
static int find_thread(uint32_t tgid)
{
	char path[32];
	const struct dirent *entry;
	int thread = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	/* fdopendir() would need another system call. */
	DIR *list = opendir(path);
	if (!list)
		return -errno;
	for (int i = 0; i < THREADS_TRIED && thread < 0 && (entry = readdir(list)); i++)
		thread = thread_open(dirfd(list), entry->d_name);
	closedir(list);
	return thread;
}

int living_thread_open(uint32_t tgid)
{
	_cleanup_close_ int process = task_open(tgid);

	if (process < 0 || task_has_memory(process))
		return TAKE_FD(process);
	const int thread = find_thread(tgid);
	return thread < 0 ? TAKE_FD(process) : thread;
}
