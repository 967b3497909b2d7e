/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/outputs.h"
#include "common/exit_status.h"

/* 2026-11-22 15:30:00. */
static const struct tm when = {
    .tm_year = 126, .tm_mon = 10, .tm_mday = 22, .tm_hour = 15, .tm_min = 30};

static const char *name_of(const char *host, const char *format, unsigned int attempt)
{
	static char name[OUTPUTS_NAME_BYTES];

	outputs_default_name(host, &when, format, attempt, name);
	return name;
}

Test(outputs, default_name_has_host_time_and_extension)
{
	cr_expect_str_eq(name_of("web-1.example", "html", 1),
			 "bulkhead-web-1.example-20261122-153000.html");
	cr_expect_str_eq(name_of("web", "pprof", 1), "bulkhead-web-20261122-153000.pb.gz");
	cr_expect_str_eq(name_of("web", "html", 2), "bulkhead-web-20261122-153000-2.html");
}

Test(outputs, default_name_stays_in_the_directory_whatever_the_host_is_called)
{
	char longest[256];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	cr_expect_str_eq(name_of("../a b\n", "html", 1), "bulkhead-.._a_b_-20261122-153000.html");
	cr_expect_str_eq(name_of("", "html", 1), "bulkhead-localhost-20261122-153000.html");
	cr_expect_lt(strlen(name_of(longest, "speedscope", 100)), OUTPUTS_NAME_BYTES - 1);
}

/* Creates an empty directory and makes it the current one. */
static void enter_directory(void)
{
	char directory[] = "/tmp/outputs-XXXXXX";

	cr_assert(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
}

static struct record_options unnamed_output(void)
{
	return (struct record_options){
	    .outputs = {{.format = "html", .fd = -1}}, .output_count = 1, .stats_fd = -1};
}

Test(outputs, two_unnamed_outputs_never_share_a_file)
{
	struct record_options a = unnamed_output(), b = unnamed_output();
	struct stat first, second;

	enter_directory();
	cr_assert_eq(outputs_open(&a), STATUS_DONE);
	cr_assert_eq(fstat(a.outputs[0].fd, &first), 0);
	cr_assert_eq(outputs_open(&b), STATUS_DONE);
	cr_assert_eq(fstat(b.outputs[0].fd, &second), 0);
	cr_expect_neq(first.st_ino, second.st_ino);
	cr_assert_eq(unlink(b.outputs[0].path), 0);
}

/* Opens the file `path` as an output, and returns what fstat says of it. */
static struct stat opened(const char *path, bool expect_created)
{
	struct stat st = {0};
	bool created = !expect_created;
	int fd = outputs_open_path(path, &created);

	cr_assert_geq(fd, 0, "%s", path);
	cr_expect_eq(created, expect_created, "%s", path);
	cr_assert_eq(fstat(fd, &st), 0);
	close(fd);
	return st;
}

Test(outputs, only_the_owner_may_read_a_new_file)
{
	struct record_options o = unnamed_output();
	struct stat st;

	enter_directory();
	umask(0);
	cr_expect_eq(opened("new", true).st_mode & 07777, 0600);
	cr_assert_eq(outputs_open(&o), STATUS_DONE);
	cr_assert_eq(fstat(o.outputs[0].fd, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600, "a file with a name of its own");
	umask(0400);
	cr_expect_eq(opened("umask", true).st_mode & 07777, 0200);
	cr_assert_eq(chmod("new", 0644), 0);
	cr_expect_eq(opened("new", false).st_mode & 07777, 0644, "an older file keeps its mode");
}

enum {
	SUDO_UID = 61001,
	SUDO_GID = 61002
};

static void run_by_sudo(const char *uid, const char *gid)
{
	if (geteuid())
		cr_skip_test("only root can give a file away");
	cr_assert_eq(setenv("SUDO_UID", uid, 1), 0);
	cr_assert_eq(setenv("SUDO_GID", gid, 1), 0);
	enter_directory();
}

Test(outputs, new_file_belongs_to_the_user_who_ran_sudo)
{
	run_by_sudo("61001", "61002");
	struct stat st = opened("new", true);
	cr_expect_eq(st.st_uid, SUDO_UID);
	cr_expect_eq(st.st_gid, SUDO_GID);
	cr_expect_eq(st.st_mode & 07777, 0600);
	struct record_options o = unnamed_output();
	cr_assert_eq(outputs_open(&o), STATUS_DONE);
	cr_assert_eq(fstat(o.outputs[0].fd, &st), 0);
	cr_expect_eq(st.st_uid, SUDO_UID, "a file with a name of its own");
}

Test(outputs, older_file_is_never_given_away)
{
	run_by_sudo("61001", "61002");
	close(open("old", O_WRONLY | O_CREAT, 0640));
	cr_assert_eq(symlink("old", "link"), 0);
	cr_assert_eq(symlink("nothing", "dangling"), 0);
	cr_expect_eq(opened("old", false).st_uid, 0);
	cr_expect_eq(opened("link", false).st_uid, 0);
	bool created;
	cr_expect_lt(outputs_open_path("dangling", &created), 0);
	struct stat st;
	cr_expect_lt(stat("nothing", &st), 0, "a link is not followed to a file that is missing");
}

Test(outputs, variables_of_sudo_that_are_no_ids_are_ignored)
{
	static const char *const bad[] = {
	    "", "-1", "+5", " 5", "5 ", "5x", "4294967295", "4294967296", "99999999999999999999"};
	char name[] = "0";

	run_by_sudo("", "61002");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SUDO_UID", bad[i], 1);
		setenv("SUDO_GID", "61002", 1);
		name[0] = (char)('a' + i);
		cr_expect_eq(opened(name, true).st_uid, 0, "SUDO_UID is '%s'", bad[i]);
		setenv("SUDO_UID", "61001", 1);
		setenv("SUDO_GID", bad[i], 1);
		name[0] = (char)('A' + i);
		cr_expect_eq(opened(name, true).st_uid, 0, "SUDO_GID is '%s'", bad[i]);
	}
	unsetenv("SUDO_GID");
	cr_expect_eq(opened("one", true).st_uid, 0, "without SUDO_GID");
}

Test(outputs, file_that_was_created_is_removed_and_an_older_one_is_kept)
{
	struct record_options o = {
	    .outputs = {{.path = "old.html", .format = "html"},
			{.path = "new.html", .format = "html"}},
	    .output_count = 2,
	    .stats_fd = -1,
	};

	enter_directory();
	int fd = open("old.html", O_WRONLY | O_CREAT, 0644);
	cr_assert_eq(write(fd, "old", 3), 3);
	close(fd);
	cr_assert_eq(outputs_open(&o), STATUS_DONE);
	outputs_remove_created(&o);
	struct stat st;
	cr_expect_eq(stat("old.html", &st), 0);
	cr_expect_eq(st.st_size, 3);
	cr_expect_neq(stat("new.html", &st), 0);
	outputs_truncate(&o);
	cr_expect_eq(stat("old.html", &st), 0);
	cr_expect_eq(st.st_size, 0);
}
