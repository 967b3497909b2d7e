/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "cli/summary.h"

static struct record_options options = {.frequency_hz = 99};
static struct recording_stats stats;

/* Prints the summary of 1000 samples and returns what follows its first line. */
static const char *print(enum group_by group_by)
{
	static char text[8192];

	options.group_by = group_by;
	stats.status[ROLE_EXPORTER].exported = stats.status[ROLE_LOADER].taken = 1000;
	cr_redirect_stderr();
	summary_print(&options, &stats);
	fflush(stderr);
	FILE *printed = cr_get_redirected_stderr();
	text[fread(text, 1, sizeof(text) - 1, printed)] = 0;
	return strchr(text, '\n') + 1;
}

static void add(const char *name, uint64_t samples, uint32_t members, uint32_t id)
{
	struct msg_top_process *process = &stats.top_processes[stats.top_process_count++];

	*process = (struct msg_top_process){.samples = samples, .members = members, .id = id};
	memcpy(process->name, name, strnlen(name, sizeof(process->name)));
}

Test(summary, without_samples_there_is_no_list_of_processes)
{
	cr_expect_str_empty(print(GROUP_BY_NAME));
}

Test(summary, one_line_for_each_process_name)
{
	add("cc1plus", 246, 105, 1234);
	add("make", 10, 1, 1);
	cr_expect_str_eq(print(GROUP_BY_NAME), "  total  process\n"
					       " 24.6 %  cc1plus (105 processes)\n"
					       "  1.0 %  make (1 process)\n");
}

Test(summary, by_pid_each_line_has_the_pid)
{
	add("cc1plus", 246, 1, 1234);
	cr_expect_str_eq(print(GROUP_BY_PID), "  total  process\n"
					      " 24.6 %  cc1plus (pid 1234)\n");
}

Test(summary, by_thread_the_threads_are_counted)
{
	add("io", 246, 2, 1234);
	add("main", 10, 1, 1);
	cr_expect_str_eq(print(GROUP_BY_THREAD), "  total  thread\n"
						 " 24.6 %  io (2 threads)\n"
						 "  1.0 %  main (1 thread)\n");
}

Test(summary, names_cannot_control_the_terminal)
{
	add("\033[2J\n\xff\xc3\xa9", 1000, 1, 1);
	cr_expect_str_eq(print(GROUP_BY_NAME), "  total  process\n"
					       "100.0 %  \\x1b[2J\\x0a\\xff\xc3\xa9 (1 process)\n");
}

Test(summary, a_name_without_nul_ends_with_its_field)
{
	char longest[sizeof(stats.top_processes[0].name) + 1] = "";
	char expected[256];

	memset(longest, 'x', sizeof(longest) - 1);
	snprintf(expected, sizeof(expected), "  total  process\n100.0 %%  %s (1 process)\n",
		 longest);
	add(longest, 1000, 1, 1);
	cr_expect_str_eq(print(GROUP_BY_NAME), expected);
}
