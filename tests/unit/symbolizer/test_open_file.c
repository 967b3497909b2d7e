/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other processes are opened only if that can neither hang nor do anything. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/opener/open_file.h"
#include "tests/unit/symbolizer/file_system_type.h"

static unsigned int opened; /* for reading */

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
	opened += !(flags & (O_PATH | O_DIRECTORY)) && strcmp(path, "statm") != 0;
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

/* The mapping may have changed since the manager saw it. */
Test(open_file, another_file_than_the_requested_one_is_not_handed_out)
{
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct msg_open_file request = map(file);

	type = EXT4_SUPER_MAGIC; /* whose numbers are reliable */
	const int fd = open_mapped(&request);
	cr_expect_geq(fd, 0);
	close(fd);
	request.inode++;
	cr_expect_eq(open_mapped(&request), -ESTALE);
	request.inode--;
	request.device_minor++;
	cr_expect_eq(open_mapped(&request), -ESTALE);
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

/* The layers of an overlay may be anywhere. Here every file is said to be of an overlay. */
Test(open_file, a_file_of_an_overlay_must_be_in_a_local_layer)
{
	const struct {
		const char *what;
		int fd;
		uint32_t device_major; /* 0: its own numbers */
		int expected;
	} cases[] = {
	    {"a disk", memfd_create("x", MFD_CLOEXEC), 8, 0},
	    {"mounted here", open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), 0, 0},
	    {"not mounted here", memfd_create("x", MFD_CLOEXEC), 0, -EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_geq(cases[i].fd, 0, "%s: %m", cases[i].what);
		cr_assert_eq(ftruncate(cases[i].fd, 4096), 0);
		struct msg_open_file request = map(cases[i].fd);
		if (cases[i].device_major)
			request.device_major = cases[i].device_major;
		type = OVERLAYFS_SUPER_MAGIC;
		const int fd = open_mapped(&request);
		type = 0;
		cr_expect_eq(fd < 0 ? fd : 0, cases[i].expected, "%s: %s", cases[i].what,
			     strerror(-fd));
		if (fd >= 0)
			close(fd);
		close(cases[i].fd);
	}
}

/* The kernel reports the device of the overlay, but knows the extents of the file. */
Test(open_file, a_file_with_extents_is_on_a_disk)
{
	char path[] = "/tmp/unit-open_file-XXXXXX";
	const int file = mkstemp(path);
	struct fiemap extents = {.fm_length = 1};

	cr_assert_geq(file, 0);
	unlink(path);
	cr_assert_eq(ftruncate(file, 4096), 0);
	if (ioctl(file, FS_IOC_FIEMAP, &extents) < 0)
		cr_skip_test("the file system of /tmp has no extents");
	struct msg_open_file request = map(file);
	request.device_major = 0;
	request.device_minor = 999999;
	type = OVERLAYFS_SUPER_MAGIC;
	const int fd = open_mapped(&request);
	type = 0;
	cr_expect_geq(fd, 0, "%s", strerror(-fd));
	close(fd);
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

/* --- a process whose first thread has ended --- */

static void *wait_for_signal(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Waits until a process has no mappings any more. */
static void wait_for_no_mappings(pid_t pid)
{
	char path[64], first;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	for (int i = 0; i < 1000; i++) {
		const int fd = __real_open(path, O_RDONLY);

		cr_assert(fd >= 0 && read(fd, &first, 1) == 1);
		close(fd);
		if (first == '0')
			return;
		usleep(10000);
	}
	cr_assert_fail("it still has mappings");
}

Test(open_file, a_process_whose_first_thread_has_ended_has_files_and_mappings)
{
	char byte;
	pthread_t thread;
	bool same_file;
	const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct msg_open_file request = map(file);
	const pid_t child = fork();

	if (!child) {
		if (pthread_create(&thread, NULL, wait_for_signal, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	wait_for_no_mappings(child);
	request.tgid = (uint32_t)child;
	const int maps = open_file_of_memory((unsigned int)child, "maps");

	cr_expect_eq(read(maps, &byte, 1), 1);
	const int mapped = open_mapped(&request), named = open_file_named(&request, &same_file);

	cr_expect_geq(mapped, 0, "%d", mapped);
	cr_expect_geq(named, 0, "%d", named);
	close(maps);
	close(mapped);
	close(named);
	close(file);
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}
