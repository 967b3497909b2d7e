/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for pinned BPF objects. */
#ifndef COMMON_BPF_DIRECTORY_H
#define COMMON_BPF_DIRECTORY_H

#include <linux/magic.h>
#include <stdbool.h>
#include <sys/vfs.h>

/* Returns whether a descriptor is of a file or directory in a BPF file system. */
static inline bool is_in_bpf_fs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == BPF_FS_MAGIC;
}

#endif
