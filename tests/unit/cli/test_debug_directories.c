/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/debug_directories.h"

enum {
	FDS_MAX = 1024
};

static char top[] = "/tmp/unit-debug_directories-XXXXXX";
static struct debug_directories directories;

static const char *path_of(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(top));
}

static void teardown(void)
{
	debug_directories_fini(&directories);
	unlink(path_of("file"));
	unlink(path_of("link"));
	cr_expect_eq(rmdir(top), 0, "%m");
}

TestSuite(debug_directories, .init = setup, .fini = teardown);

static unsigned int count_fds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* The last one is this directory, and can be used to search in it and for nothing else. */
static void expect_last(const char *path)
{
	const int fd = directories.fds[directories.count - 1];
	struct stat expected, st;

	cr_assert_eq(stat(path, &expected), 0);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_dev, expected.st_dev);
	cr_expect_eq(st.st_ino, expected.st_ino);
	cr_expect_eq(fcntl(fd, F_GETFL) & (O_PATH | O_ACCMODE), O_PATH);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

Test(debug_directories, those_of_distributions_are_the_first_if_there_are_any)
{
	struct stat st;
	const bool has_any = stat("/usr/lib/debug", &st) == 0 && S_ISDIR(st.st_mode);

	directories.count = 5; /* anything */
	debug_directories_init(&directories);
	cr_assert_eq(directories.count, has_any);
	if (has_any)
		expect_last("/usr/lib/debug");
	cr_assert_eq(debug_directories_add(&directories, top), 0);
	cr_expect_eq(directories.count, has_any + 1u);
	expect_last(top);
}

Test(debug_directories, those_that_the_user_names_have_room)
{
	const unsigned int before = count_fds();

	debug_directories_init(&directories);
	for (unsigned int i = 0; i < DEBUG_DIRECTORIES_MORE_MAX; i++) {
		cr_assert_eq(debug_directories_add(&directories, i % 2 ? "/" : top), 0);
		expect_last(i % 2 ? "/" : top);
	}
	cr_expect_eq(count_fds(), before + directories.count);
	debug_directories_fini(&directories);
	cr_expect_eq(directories.count, 0);
	cr_expect_eq(count_fds(), before);
}

Test(debug_directories, more_than_there_is_room_for_are_refused)
{
	for (unsigned int i = 0; i < LIMIT_DEBUG_DIRECTORIES; i++)
		cr_assert_eq(debug_directories_add(&directories, top), 0);
	const unsigned int before = count_fds();
	cr_expect_eq(debug_directories_add(&directories, top), -ENOSPC);
	cr_expect_eq(debug_directories_add(&directories, path_of("missing")), -ENOSPC);
	cr_expect_eq(directories.count, LIMIT_DEBUG_DIRECTORIES);
	cr_expect_eq(count_fds(), before);
	expect_last(top);
}

Test(debug_directories, what_is_no_directory_is_refused)
{
	const unsigned int before = count_fds();

	cr_expect_eq(debug_directories_add(&directories, path_of("missing")), -ENOENT);
	cr_expect_eq(debug_directories_add(&directories, ""), -ENOENT);
	close(open(path_of("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	cr_expect_eq(debug_directories_add(&directories, path_of("file")), -ENOTDIR);
	cr_expect_eq(debug_directories_add(&directories, path_of("file/below")), -ENOTDIR);
	cr_expect_eq(directories.count, 0);
	cr_expect_eq(count_fds(), before);
}

Test(debug_directories, a_link_to_a_directory_is_followed)
{
	cr_assert_eq(symlink("/proc", path_of("link")), 0);
	cr_assert_eq(debug_directories_add(&directories, path_of("link")), 0);
	expect_last("/proc");
}
