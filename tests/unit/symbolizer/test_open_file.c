/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other processes are opened only if that can neither hang nor do anything. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "symbolizer/opener/open_file.h"

static unsigned long type;  /* of all file systems; 0: what they are */
static unsigned int opened; /* for reading */

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs)
{
	const int r = __real_fstatfs(fd, fs);

	if (type)
		fs->f_type = (__fsword_t)type;
	return r;
}

int __real_open(const char *path, int flags);
int __wrap_open(const char *path, int flags);
int __wrap_open(const char *path, int flags)
{
	opened += !(flags & (O_PATH | O_DIRECTORY));
	return __real_open(path, flags);
}

int __real_openat(int directory, const char *path, int flags);
int __wrap_openat(int directory, const char *path, int flags);
int __wrap_openat(int directory, const char *path, int flags)
{
	opened += !(flags & (O_PATH | O_DIRECTORY));
	return __real_openat(directory, path, flags);
}

/* Maps a page of a file. Returns the request for it. */
static struct msg_open_file map(int fd)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	struct stat st;

	cr_assert_neq(page, MAP_FAILED, "%m");
	cr_assert_eq(fstat(fd, &st), 0);
	return (struct msg_open_file){.tgid = (uint32_t)getpid(),
				      .address_start = (uintptr_t)page,
				      .address_end = (uintptr_t)page + 4096,
				      .device_major = major(st.st_dev),
				      .device_minor = minor(st.st_dev),
				      .inode = st.st_ino};
}

static int open_mapped(const struct msg_open_file *request)
{
	bool same_file;

	opened = 0;
	const int fd = open_file_mapped(request, &same_file);
	if (fd == -EPERM || fd == -EACCES)
		cr_skip_test("only root can open /proc/PID/map_files");
	return fd;
}

Test(open_file, a_deleted_file_is_opened)
{
	char path[] = "/tmp/unit-open_file-XXXXXX", byte;
	const int file = mkstemp(path);

	cr_assert_geq(file, 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(pwrite(file, "x", 1, 4095), 1);
	const struct msg_open_file request = map(file);
	const int fd = open_mapped(&request);
	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	cr_expect_eq(pread(fd, &byte, 1, 4095), 1);
	cr_expect_eq(byte, 'x');
	cr_expect_eq(opened, 1);
	close(fd);
	close(file);
}

Test(open_file, file_systems_that_are_not_known_to_be_local_are_not_touched)
{
	const struct {
		unsigned long type;
		bool local;
	} cases[] = {
	    {EXT4_SUPER_MAGIC, true}, {TMPFS_MAGIC, true}, {0x58465342, true}, /* XFS */
	    {NFS_SUPER_MAGIC, false}, {V9FS_MAGIC, false}, {FUSE_SUPER_MAGIC, false},
	    {0x0bd00bd0, false}, /* Lustre */
	    {0x12345678, false}, /* of tomorrow */
	};
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct msg_open_file request = map(file);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		type = cases[i].type;
		const int fd = open_mapped(&request);
		cr_expect_eq(fd >= 0 || fd == -ESTALE, cases[i].local, "%#lx: %d", type, fd);
		cr_expect_eq(fd == -EOPNOTSUPP, !cases[i].local, "%#lx: %d", type, fd);
		cr_expect_eq(opened, cases[i].local, "%#lx", type);
		if (fd >= 0)
			close(fd);
	}
	type = 0;
	close(file);
}

/* Opening a device may do something, such as starting or stopping it. */
Test(open_file, devices_are_not_opened)
{
	const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	const struct msg_open_file request = map(zero);

	cr_expect_eq(open_mapped(&request), -EINVAL);
	cr_expect_eq(opened, 0);
	close(zero);
}
