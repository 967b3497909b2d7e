/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that are linked with -Wl,--wrap=fstatfs: files are on a file system of another type. */
#ifndef TESTS_UNIT_SYMBOLIZER_FILE_SYSTEM_TYPE_H
#define TESTS_UNIT_SYMBOLIZER_FILE_SYSTEM_TYPE_H

#include <sys/vfs.h>

static unsigned long type; /* of all file systems; 0: what they are */

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs)
{
	const int r = __real_fstatfs(fd, fs);

	if (type)
		fs->f_type = (__fsword_t)type;
	return r;
}

#endif
