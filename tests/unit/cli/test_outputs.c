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
