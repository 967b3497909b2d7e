/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_MEMORY_PATH_H
#define COMMON_MEMORY_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns whether a path of /proc/PID/maps is the kernel's name for memory that is no file of a
 * file system on a disk: memfd_create(), POSIX and System V shared memory, MAP_SHARED without a
 * file, and huge pages (mm/shmem.c, ipc/shm.c, fs/hugetlbfs/inode.c). */
static inline bool memory_path(const char *path)
{
	static const char *const prefixes[] = {"/memfd:", "/dev/shm/", "/SYSV"};
	static const char *const names[] = {"/dev/zero", "/anon_hugepage"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (!strncmp(path, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t length = strlen(names[i]);

		if (!strncmp(path, names[i], length) &&
		    (!path[length] || !strcmp(path + length, " (deleted)")))
			return true;
	}
	return false;
}

#endif
