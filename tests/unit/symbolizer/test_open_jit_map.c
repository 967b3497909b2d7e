/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of generated code: which file the opener opens, and what it refuses. The process is a child
 * with a root of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/messages.h"
#include "symbolizer/opener/open_jit_map.h"
#include "tests/unit/symbolizer/expect_file.h"
#include "tests/unit/symbolizer/file_system_type.h"

enum {
	PATH_BYTES = 512,
	OWNER = 4321,
	OTHER = 4322,
};

static char top[] = "/tmp/unit-open_jit_map-XXXXXX"; /* the root of the child */
static pid_t child;
static bool is_ended;
static char map[PATH_BYTES]; /* of the child, as this test sees it */
static bool by_name, is_dump;

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

/* What the child is to map. */
struct mapping {
	int protection;
	char path[PATH_BYTES];
};

static int commands[2], answers[2]; /* pipes to and from the child */

/* Maps the files that the test asks for. */
static void run_child(void)
{
	struct mapping wanted;

	close(commands[1]);
	if (chroot(top) < 0 || chdir("/") < 0 || write(answers[1], "x", 1) != 1)
		_exit(1);
	while (read(commands[0], &wanted, sizeof(wanted)) == sizeof(wanted)) {
		const int fd = open(wanted.path, O_RDONLY | O_CLOEXEC);

		if (mmap(NULL, 4096, wanted.protection, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			_exit(1);
		close(fd);
		if (write(answers[1], "x", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static void wait_for_child(void)
{
	char byte;

	cr_assert_eq(read(answers[0], &byte, 1), 1);
}

/* The child is the first process of a pid namespace, so its own pid is 1. */
static void setup(void)
{
	char path[PATH_BYTES];

	if (geteuid())
		cr_skip_test("only root can change a root");
	cr_assert_not_null(mkdtemp(top));
	cr_assert_eq(chmod(top, 0755), 0);
	snprintf(path, sizeof(path), "%s/tmp", top);
	cr_assert_eq(mkdir(path, 0755), 0);
	cr_assert_eq(chmod(path, 01777), 0);
	cr_assert_eq(pipe(commands), 0);
	cr_assert_eq(pipe(answers), 0);
	cr_assert_eq(unshare(CLONE_NEWPID), 0, "%m");
	child = fork();
	if (child == 0)
		run_child();
	close(answers[1]);
	wait_for_child();
	snprintf(map, sizeof(map), "%s/tmp/perf-1.map", top);
}

static void teardown(void)
{
	if (!child)
		return;
	if (!is_ended) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	cr_expect_eq(nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0, "%s: %m", top);
}

TestSuite(open_jit_map, .init = setup, .fini = teardown, .timeout = 30);

static void make_file(const char *path, const char *text, uid_t owner, mode_t mode)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file, "%s: %m", path);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(chown(path, owner, owner), 0);
	cr_assert_eq(chmod(path, mode), 0);
}

static int open_as(uint32_t uid)
{
	return open_jit_map((uint32_t)child, uid, by_name, &is_dump);
}

static void expect_opened(uint32_t uid, const char *expected)
{
	expect_file(open_as(uid), expected);
}

static void expect_error(uint32_t uid, int error)
{
	const int fd = open_as(uid);

	cr_expect_eq(fd, error, "%d (%s) instead of %d", fd, strerror(fd < 0 ? -fd : 0), error);
}

Test(open_jit_map, is_that_of_the_pid_that_the_process_has_itself)
{
	char other[PATH_BYTES];

	snprintf(other, sizeof(other), "%s/tmp/perf-%d.map", top, child);
	make_file(other, "that of another process", OWNER, 0644);
	expect_error(OWNER, -ENOENT);
	make_file(map, "its own", OWNER, 0600);
	expect_opened(OWNER, "its own");
}

Test(open_jit_map, belongs_to_the_user_of_the_process_or_to_root)
{
	make_file(map, "foreign", OTHER, 0666);
	expect_error(OWNER, -EACCES);
	expect_error(0, -EACCES);
	expect_opened(OTHER, "foreign");
	make_file(map, "root's", 0, 0644);
	expect_opened(OWNER, "root's");
	make_file(map, "secret of root", 0, 0640);
	expect_error(OWNER, -EACCES);
	expect_opened(0, "secret of root");
}

Test(open_jit_map, is_no_symbolic_link)
{
	char target[PATH_BYTES];

	snprintf(target, sizeof(target), "%s/target", top);
	make_file(target, "target", OWNER, 0644);
	cr_assert_eq(symlink("/target", map), 0);
	cr_assert_eq(lchown(map, OWNER, OWNER), 0);
	expect_error(OWNER, -EINVAL);
}

Test(open_jit_map, is_not_below_a_symbolic_link)
{
	char path[PATH_BYTES], target[PATH_BYTES];

	make_file(map, "map", OWNER, 0644);
	snprintf(path, sizeof(path), "%s/tmp", top);
	snprintf(target, sizeof(target), "%s/elsewhere", top);
	cr_assert_eq(rename(path, target), 0);
	cr_assert_eq(symlink("elsewhere", path), 0);
	expect_error(OWNER, -ENOTDIR);
}

Test(open_jit_map, is_a_regular_file)
{
	/* To open it would wait for a writer. */
	cr_assert_eq(mkfifo(map, 0644), 0);
	cr_assert_eq(chown(map, OWNER, OWNER), 0);
	expect_error(OWNER, -EINVAL);
	cr_assert_eq(unlink(map), 0);
	cr_assert_eq(mknod(map, S_IFCHR | 0644, 0x103), 0);
	cr_assert_eq(chown(map, OWNER, OWNER), 0);
	expect_error(OWNER, -EINVAL);
	cr_assert_eq(unlink(map), 0);
	cr_assert_eq(mkdir(map, 0755), 0);
	expect_error(0, -EINVAL);
}

Test(open_jit_map, is_on_a_local_file_system)
{
	make_file(map, "map", OWNER, 0644);
	type = FUSE_SUPER_MAGIC;
	expect_error(OWNER, -EOPNOTSUPP);
	type = NFS_SUPER_MAGIC;
	expect_error(OWNER, -EOPNOTSUPP);
	type = 0;
	expect_opened(OWNER, "map");
}

Test(open_jit_map, is_in_a_directory_that_the_user_may_enter)
{
	char path[PATH_BYTES];

	make_file(map, "map", OWNER, 0644);
	snprintf(path, sizeof(path), "%s/tmp", top);
	cr_assert_eq(chmod(path, 0700), 0);
	expect_error(OWNER, -EACCES);
	make_file(map, "root's", 0, 0644);
	expect_error(OWNER, -EACCES);
	expect_opened(0, "root's");
}

/* --- jitdump files --- */

static char dump[PATH_BYTES]; /* of the child, as this test sees it */

/* Lets the child map a file in its root with this protection. */
static void map_in_child(const char *path, const char *text, int protection)
{
	struct mapping wanted = {.protection = protection};

	snprintf(dump, sizeof(dump), "%s%s", top, path);
	make_file(dump, text, OWNER, 0600);
	snprintf(wanted.path, sizeof(wanted.path), "%s", path);
	cr_assert_eq(write(commands[1], &wanted, sizeof(wanted)), sizeof(wanted));
	wait_for_child();
}

Test(open_jit_map, is_the_jitdump_that_the_process_maps_executable)
{
	make_file(map, "map", OWNER, 0644);
	map_in_child("/jit-1.dump", "dump", PROT_READ | PROT_EXEC);
	expect_opened(OWNER, "dump");
	cr_expect(is_dump);
	by_name = true;
	expect_opened(OWNER, "dump");
	cr_expect(is_dump);
	cr_assert_eq(unlink(dump), 0);
	expect_opened(OWNER, "map");
	cr_expect_not(is_dump);
	by_name = false;
	expect_opened(OWNER, "dump");
	cr_expect(is_dump, "it is mapped, although it has no name any more");
}

Test(open_jit_map, is_no_jitdump_of_others)
{
	make_file(map, "map", OWNER, 0644);
	map_in_child("/jit-1.dump", "dump", PROT_READ | PROT_EXEC);
	cr_assert_eq(chown(dump, OTHER, OTHER), 0);
	expect_opened(OWNER, "map");
	cr_expect_not(is_dump);
	cr_assert_eq(chown(dump, 0, 0), 0);
	expect_opened(OWNER, "map");
	cr_assert_eq(chmod(dump, 0644), 0);
	expect_opened(OWNER, "dump");
}

Test(open_jit_map, is_no_jitdump_that_is_not_executable)
{
	make_file(map, "map", OWNER, 0644);
	map_in_child("/jit-1.dump", "dump", PROT_READ);
	expect_opened(OWNER, "map");
}

Test(open_jit_map, is_no_jitdump_of_another_pid)
{
	make_file(map, "map", OWNER, 0644);
	map_in_child("/jit-2.dump", "dump", PROT_READ | PROT_EXEC);
	expect_opened(OWNER, "map");
	map_in_child("/another-jit-1.dump", "dump", PROT_READ | PROT_EXEC);
	expect_opened(OWNER, "map");
	map_in_child("/jit-1.dump.old", "dump", PROT_READ | PROT_EXEC);
	expect_opened(OWNER, "map");
}

Test(open_jit_map, is_a_jitdump_on_a_local_file_system)
{
	map_in_child("/jit-1.dump", "dump", PROT_READ | PROT_EXEC);
	type = FUSE_SUPER_MAGIC;
	expect_error(OWNER, -EOPNOTSUPP);
}

Test(open_jit_map, is_that_of_a_process_that_runs)
{
	make_file(map, "map", OWNER, 0644);
	expect_error(TENANT_UID_UNKNOWN, -ESRCH);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	expect_error(OWNER, -ESRCH);
	is_ended = true;
}
