/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files near a file that a process maps, and in the root of the process. The process is the
 * test itself or, with a root of its own, a child. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/opener/open_debug.h"
#include "tests/unit/symbolizer/expect_file.h"
#include "tests/unit/symbolizer/file_system_type.h"

enum {
	PATH_BYTES = 512,
	OWNER = 4321,
	OTHER = 4322,
};

#define BY_ID "usr/lib/debug/.build-id/00/11.debug"

static char top[] = "/tmp/unit-open_debug_process-XXXXXX"; /* the root of the child */
static struct directories directories;			   /* top/given */
static struct msg_open_debug request;
static uint32_t found_path;
static pid_t child;

/* Writes the path of an entry below the top directory, and makes the directories above it. */
static const char *make_path(const char *name)
{
	static char path[PATH_BYTES];
	const int start = snprintf(path, sizeof(path), "%s/", top);

	snprintf(path + start, sizeof(path) - (size_t)start, "%s", name);
	for (char *slash = path + start; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %m", path);
		*slash = '/';
	}
	return path;
}

/* Makes a file that contains where it is. */
static void make_file(const char *name)
{
	FILE *file = fopen(make_path(name), "w");

	cr_assert_not_null(file, "%s: %m", name);
	fprintf(file, "%s", name);
	fclose(file);
}

/* Returns the path of an entry below the top directory if that is where its name says from the root
 * of this test: /usr/lib/debug + /tmp/unit-... */
static const char *below_top(const char *before, const char *name)
{
	static char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s%s/%s", before, top, name);
	return path;
}

static void *map_file(const char *name)
{
	const int fd = open(make_path(name), O_RDONLY | O_CLOEXEC);
	struct stat st;

	cr_assert_eq(fstat(fd, &st), 0, "%s: %m", name);
	request.inode = st.st_ino;
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert_neq(page, MAP_FAILED, "%m");
	close(fd);
	return page;
}

static void set_link(const char *name)
{
	memset(request.link, 0, sizeof(request.link));
	memcpy(request.link, name, strlen(name));
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(top));
	cr_assert_eq(chmod(top, 0755), 0);
	make_file("bin/x");
	map_file("bin/x");
	make_path("given/");
	directories = (struct directories){
	    .count = 1, .fds = {open(make_path("given/"), O_PATH | O_DIRECTORY | O_CLOEXEC)}};
	cr_assert_geq(directories.fds[0], 0);
	request.place = MSG_DEBUG_OF_PROCESS;
	request.tgid = (uint32_t)getpid();
	request.length = 2;
	memcpy(request.build_id, (uint8_t[]){0x00, 0x11}, 2);
	set_link("x.debug");
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void teardown(void)
{
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	close(directories.fds[0]);
	cr_expect_eq(nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0, "%s: %m", top);
}

TestSuite(open_debug_process, .init = setup, .fini = teardown, .timeout = 30);

/* Makes a child with the top directory as its root the process that is asked for. */
static void start_child(void)
{
	int ready[2];
	char byte;

	if (geteuid())
		cr_skip_test("only root can change a root");
	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (chroot(top) < 0 || chdir("/") < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	request.tgid = (uint32_t)child;
}

static int find(uint32_t uid)
{
	return open_debug_file_of_process(&directories, &request, uid, &found_path);
}

static void expect_found_as(uint32_t uid, const char *expected)
{
	expect_file(find(uid), expected);
}

static void expect_found(const char *expected)
{
	expect_found_as(geteuid(), expected);
}

static void expect_error(int error)
{
	const int fd = find(geteuid());

	cr_expect_eq(fd, error, "%d", fd);
}

Test(open_debug_process, next_to_the_file_and_below_it)
{
	expect_error(-ENOENT);
	make_file("bin/.debug/x.debug");
	expect_found("bin/.debug/x.debug");
	make_file("bin/x.debug");
	expect_found("bin/x.debug");
}

/* The mapping of the child has the path that this test sees, which the child does not have. */
Test(open_debug_process, in_the_root_of_the_process_and_on_the_host)
{
	static const char *const names[] = {"given", "bin/.debug/x.debug", "bin/x.debug"};

	start_child();
	expect_error(-ENOENT);
	/* From the last one to the first one. */
	make_file(below_top("given", "bin/x.debug"));
	expect_found(below_top("given", "bin/x.debug"));
	for (unsigned int i = 1; i < 3; i++) {
		make_file(names[i]);
		expect_found(names[i]);
	}
	make_file(below_top("usr/lib/debug", "bin/x.debug"));
	expect_found(below_top("usr/lib/debug", "bin/x.debug"));
	make_file(below_top("", "bin/.debug/x.debug") + 1);
	expect_found(below_top("", "bin/.debug/x.debug") + 1);
	make_file(below_top("", "bin/x.debug") + 1);
	expect_found(below_top("", "bin/x.debug") + 1);
	make_file(BY_ID);
	expect_found(BY_ID);
	cr_expect_eq(found_path, 0);
}

/* If a file is not the right one, the worker asks for the next one. */
Test(open_debug_process, each_path_is_found_once)
{
	unsigned int found = 0;

	start_child();
	make_file(BY_ID);
	make_file("bin/x.debug");
	make_file("bin/.debug/x.debug");
	make_file(below_top("usr/lib/debug", "bin/x.debug"));
	make_file(below_top("given", "bin/x.debug"));
	for (int fd; (fd = find(0)) >= 0; found++) {
		close(fd);
		cr_assert_geq(found_path, request.first);
		request.first = found_path + 1;
	}
	cr_expect_eq(found, 5);
	expect_error(-ENOENT);
	request.first = UINT32_MAX;
	expect_error(-ENOENT);
}

Test(open_debug_process, without_a_build_id_there_is_the_link)
{
	start_child();
	make_file(BY_ID);
	make_file("bin/x.debug");
	for (request.length = 0; request.length < 2; request.length++)
		expect_found("bin/x.debug");
	request.length = MSG_BUILD_ID_BYTES + 1;
	expect_found("bin/x.debug");
	request.length = 2;
	expect_found(BY_ID);
}

/* A name leads nowhere else, and to no other kind of file. */
Test(open_debug_process, names_that_are_no_names_of_debug_files_are_not_tried)
{
	static const char *const names[] = {
	    "",		".debug",   "x",      "/bin/x.debug", "../bin/x.debug", ".debug/x.debug",
	    "x.debug/", "x.debug2", "x.Debug"};

	make_file("bin/x.debug");
	make_file("bin/.debug/x.debug");
	make_file("bin/x.debug2");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		set_link(names[i]);
		expect_error(-ENOENT);
	}
	/* Without a NUL. */
	memset(request.link, 'x', sizeof(request.link));
	memcpy(request.link + sizeof(request.link) - 6, ".debug", 6);
	expect_error(-ENOENT);
	set_link("x.debug");
	expect_found("bin/x.debug");
}

Test(open_debug_process, a_process_that_does_not_map_the_file_has_ended)
{
	make_file("bin/x.debug");
	request.inode++;
	expect_error(-ESRCH);
	request.inode = 0;
	expect_error(-EINVAL);
	request.inode = 1;
	request.tgid = 0;
	expect_error(-ESRCH);
	request.tgid = 1u << 30;
	expect_error(-ESRCH);
}

/* The search in its mappings has an end. New mappings come before older ones. */
Test(open_debug_process, a_process_with_very_many_mappings_has_none)
{
	enum {
		MAPPINGS = 4096,
		PAGE = 4096
	};

	make_file("bin/x.debug");
	for (unsigned int i = 0; i <= MAPPINGS; i++) {
		if (i == MAPPINGS / 2)
			expect_found("bin/x.debug");
		/* Neighbours differ, so that they stay apart. */
		cr_assert_neq(mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			      MAP_FAILED, "%m");
	}
	expect_error(-ENOENT);
}

/* The file itself may have been deleted, as by an upgrade. */
Test(open_debug_process, the_directory_of_a_deleted_file_is_searched)
{
	make_file("bin/x.debug");
	cr_assert_eq(unlink(make_path("bin/x")), 0);
	expect_found("bin/x.debug");
}

/* Links could lead to files of others. */
Test(open_debug_process, links_are_not_followed)
{
	make_file("elsewhere/x.debug");
	cr_assert_eq(symlink("../elsewhere/x.debug", make_path("bin/x.debug")), 0);
	cr_assert_eq(symlink("../elsewhere", make_path("bin/.debug")), 0);
	expect_error(-ENOENT);
	cr_assert_eq(unlink(make_path("bin/.debug")), 0);
	make_file("bin/.debug/x.debug");
	expect_found("bin/.debug/x.debug");
}

Test(open_debug_process, what_is_no_file_is_not_opened)
{
	cr_assert_eq(mkfifo(make_path("bin/x.debug"), 0644), 0);
	expect_error(-EINVAL);
	make_file("bin/.debug/x.debug");
	expect_found("bin/.debug/x.debug");
}

Test(open_debug_process, only_local_file_systems_are_entered)
{
	static const unsigned long others[] = {NFS_SUPER_MAGIC, FUSE_SUPER_MAGIC, 0x12345678};

	make_file("bin/x.debug");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		type = others[i];
		expect_error(-EOPNOTSUPP);
	}
	type = TMPFS_MAGIC;
	expect_found("bin/x.debug");
}

Test(open_debug_process, files_and_directories_are_open_to_all_or_to_the_user)
{
	static const struct {
		uid_t directory, file, process;
		mode_t directory_mode, file_mode;
		bool found;
	} cases[] = {
	    {0, 0, OWNER, 0755, 0644, true},
	    {0, 0, OWNER, 0755, 0640, false},
	    {0, 0, OWNER, 0750, 0644, false},
	    {0, 0, 0, 0700, 0644, true},
	    {0, 0, 0, 0700, 0600, false},
	    {OWNER, OWNER, OWNER, 0700, 0600, true},
	    {OWNER, OWNER, OTHER, 0700, 0644, false},
	    {OWNER, OWNER, OTHER, 0711, 0600, false},
	    {OWNER, OTHER, OWNER, 0700, 0600, false},
	    {OWNER, OWNER, 0, 0700, 0644, false},
	};

	if (geteuid())
		cr_skip_test("only root can give files away");
	make_file("bin/x.debug");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(chown(make_path("bin/x.debug"), cases[i].file, 0), 0);
		cr_assert_eq(chmod(make_path("bin/x.debug"), cases[i].file_mode), 0);
		cr_assert_eq(chown(make_path("bin"), cases[i].directory, 0), 0);
		cr_assert_eq(chmod(make_path("bin"), cases[i].directory_mode), 0);
		const int fd = find(cases[i].process);
		cr_expect_eq(fd >= 0, cases[i].found, "%zu: %d", i, fd);
		if (fd >= 0)
			close(fd);
		else
			cr_expect_eq(fd, -EACCES, "%zu: %d", i, fd);
	}
}

Test(open_debug_process, nothing_stays_open)
{
	make_file("bin/x.debug");
	const int before = dup(0);
	close(before);
	for (unsigned int i = 0; i < 10; i++) {
		const int fd = find(geteuid());
		cr_assert_geq(fd, 0);
		close(fd);
		request.link[0] = 0;
		expect_error(-ENOENT);
		request.link[0] = 'x';
	}
	const int after = dup(0);
	cr_expect_eq(after, before);
	close(after);
}

/* --- alternate files --- */

Test(open_debug_process, alternate_files_are_also_where_distributions_put_them)
{
	static const char *const names[] = {"bin/common.debug", "usr/lib/debug/.dwz/common.debug",
					    "usr/lib/debug/.dwz/x86_64-linux-gnu/common.debug"};
	unsigned int found = 0;

	start_child();
	request.place = MSG_DEBUG_ALTERNATE_OF_PROCESS;
	set_link("common.debug");
	expect_error(-ENOENT);
	for (unsigned int i = 0; i < 3; i++) {
		make_file(names[i]);
		expect_found(names[i]);
	}
	for (int fd; (fd = find(0)) >= 0; found++) {
		close(fd);
		cr_assert_geq(found_path, request.first);
		request.first = found_path + 1;
	}
	cr_expect_eq(found, 3, "%u", found);
	request.first = 0;
	request.place = MSG_DEBUG_OF_PROCESS;
	expect_found(names[0]);
}

/* In a root of others, links could lead to files of others. */
Test(open_debug_process, links_to_alternate_files_are_not_followed)
{
	start_child();
	request.place = MSG_DEBUG_ALTERNATE_OF_PROCESS;
	set_link("common.debug");
	make_file("elsewhere/common.debug");
	make_path("usr/lib/debug/.dwz/");
	cr_assert_eq(
	    symlink("/elsewhere/common.debug", make_path("usr/lib/debug/.dwz/common.debug")), 0);
	cr_assert_eq(symlink("/elsewhere", make_path("usr/lib/debug/.dwz/x86_64-linux-gnu")), 0);
	expect_error(-ENOENT);
	set_link("../../elsewhere/common.debug");
	expect_error(-ENOENT);
}

/* --- split DWARF --- */

/* Starts the child, and searches for what has no build id. */
static void start_child_with(enum msg_debug_place place)
{
	start_child();
	request.place = place;
	request.length = 0;
}

/* The name is that of the mapped file, so the link does not count. */
Test(open_debug_process, a_package_has_the_name_of_the_file)
{
	start_child_with(MSG_DEBUG_PACKAGE_OF_PROCESS);
	set_link("y.debug");
	make_file("bin/y.debug");
	make_file("bin/y.debug.dwp");
	expect_error(-ENOENT);
	make_file("bin/.debug/x.dwp");
	expect_found("bin/.debug/x.dwp");
	make_file("bin/x.dwp");
	expect_found("bin/x.dwp");
}

Test(open_debug_process, split_files_are_below_the_directory_of_the_file)
{
	start_child_with(MSG_DEBUG_SPLIT_OF_PROCESS);
	set_link("parts/one/a.dwo");
	expect_error(-ENOENT);
	make_file("bin/a.dwo");
	expect_found("bin/a.dwo");
	make_file("bin/parts/one/a.dwo");
	expect_found("bin/parts/one/a.dwo");
	request.first = found_path + 1;
	expect_found("bin/a.dwo");
	request.first = 0;
	set_link("a.dwo");
	expect_found("bin/a.dwo");
}

/* The path may be of anybody. It leads to no other directory, and to nothing that does not look
 * like a split file. */
Test(open_debug_process, paths_of_split_files_do_not_lead_elsewhere)
{
	static const char *const links[] = {"../elsewhere/a.dwo",
					    "parts/../../elsewhere/a.dwo",
					    "/elsewhere/a.dwo",
					    "secret",
					    "",
					    ".dwo",
					    "linked/a.dwo",
					    "linked.dwo",
					    "x.debug"};

	char given[256];

	start_child_with(MSG_DEBUG_SPLIT_OF_PROCESS);
	make_file("elsewhere/a.dwo");
	make_file("bin/secret");
	make_file("bin/x.debug");
	make_path("bin/parts/");
	/* Below a directory of the CLI, links are followed. */
	snprintf(given, sizeof(given), "given%s/elsewhere/a.dwo", top);
	make_file(given);
	snprintf(given, sizeof(given), "given%s/bin/parts/", top);
	make_path(given);
	cr_assert_eq(symlink("/elsewhere", make_path("bin/linked")), 0);
	cr_assert_eq(symlink("/elsewhere/a.dwo", make_path("bin/linked.dwo")), 0);
	for (unsigned int i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		set_link(links[i]);
		const int fd = find(0);

		cr_expect_lt(fd, 0, "%s", links[i]);
	}
	memset(request.link, 'a', sizeof(request.link));
	cr_expect_lt(find(0), 0, "it has no end");
}
