/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "exporter/model/top_processes.h"

static struct profile p;
static struct msg_top_process top[5];

static void setup(void)
{
	cr_assert_eq(profile_init(&p, 64 << 20), 0);
}

static void teardown(void)
{
	profile_fini(&p);
}

TestSuite(top_processes, .init = setup, .fini = teardown);

static uint32_t string(const char *text)
{
	uint32_t id;

	cr_assert_eq(profile_string(&p, text, strlen(text), &id), 0);
	return id;
}

/* Adds samples of a thread of a process. `start` distinguishes processes with one pid. */
static void add_at(const char *name, uint32_t pid, uint64_t start, const char *thread_name,
		   uint32_t tid, uint64_t count)
{
	struct profile_process process = {.tgid = pid, .start = start, .name = string(name)};
	struct profile_thread thread = {.tid = tid, .name = string(thread_name)};
	uint32_t id;

	cr_assert_eq(profile_process(&p, &process, &thread.process), 0);
	cr_assert_eq(profile_thread(&p, &thread, &id), 0);
	if (count)
		cr_assert_eq(profile_add(&p, id, 0, count), 0);
}

static void add(const char *name, uint32_t pid, uint64_t count)
{
	add_at(name, pid, pid, name, pid, count);
}

static void check(unsigned int at, const char *name, uint32_t members, uint64_t samples)
{
	cr_expect_str_eq(top[at].name, name);
	cr_expect_eq(top[at].members, members, "%s: %u members", name, top[at].members);
	cr_expect_eq(top[at].samples, samples, "%s: %lu samples", name, top[at].samples);
}

Test(top_processes, an_empty_profile_has_none)
{
	cr_expect_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 0);
}

Test(top_processes, processes_of_one_name_are_one_entry)
{
	add("cc1plus", 10, 30);
	add("make", 12, 40);
	add("cc1plus", 11, 20);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 2);
	check(0, "cc1plus", 2, 50);
	check(1, "make", 1, 40);
}

Test(top_processes, by_pid_each_process_is_an_entry)
{
	add("cc1plus", 10, 20);
	add("cc1plus", 11, 30);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_PID, top, 5), 2);
	check(0, "cc1plus", 1, 30);
	cr_expect_eq(top[0].id, 11);
	check(1, "cc1plus", 1, 20);
	cr_expect_eq(top[1].id, 10);
}

Test(top_processes, threads_of_a_process_are_one_member)
{
	add_at("app", 10, 1, "main", 10, 1);
	add_at("app", 10, 1, "io", 11, 2);
	add_at("app", 20, 1, "io", 21, 4);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 1);
	check(0, "app", 2, 7);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_PID, top, 5), 2);
	check(0, "app", 1, 4);
	check(1, "app", 1, 3);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_THREAD, top, 5), 2);
	check(0, "io", 2, 6);
	check(1, "main", 1, 1);
}

Test(top_processes, one_name_with_one_pid_is_one_process)
{
	add_at("sh", 10, 1, "sh", 10, 5);
	add_at("sh", 10, 2, "sh", 10, 6);
	add_at("ls", 10, 3, "ls", 10, 1);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_PID, top, 5), 2);
	check(0, "sh", 1, 11);
	check(1, "ls", 1, 1);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 2);
	check(0, "sh", 1, 11);
}

Test(top_processes, a_process_without_samples_is_not_a_member)
{
	add("app", 10, 3);
	add("app", 11, 0);
	add("idle", 12, 0);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 1);
	check(0, "app", 1, 3);
}

Test(top_processes, equally_many_samples_are_in_the_order_of_names_and_pids)
{
	add("b", 7, 10);
	add("c", 5, 10);
	add("a", 9, 10);
	add("b", 6, 10);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_PID, top, 5), 4);
	check(0, "a", 1, 10);
	check(1, "b", 1, 10);
	cr_expect_eq(top[1].id, 6);
	cr_expect_eq(top[2].id, 7);
	check(3, "c", 1, 10);
}

Test(top_processes, only_the_largest_fit_and_nothing_beyond_is_written)
{
	const struct msg_top_process untouched = {.samples = 12345};

	for (uint32_t i = 1; i <= 9; i++) {
		char name[8];

		snprintf(name, sizeof(name), "app%u", i);
		add(name, 100 + i, i * 7 % 10); /* 7 4 1 8 5 2 9 6 3 */
	}
	top[3] = untouched;
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 3), 3);
	cr_expect_eq(memcmp(&top[3], &untouched, sizeof(untouched)), 0);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 5);
	check(0, "app7", 1, 9);
	check(1, "app4", 1, 8);
	check(2, "app1", 1, 7);
	check(3, "app8", 1, 6);
	check(4, "app5", 1, 5);
}

/* A comm has at most 15 bytes, and each invalid one becomes an escape. */
Test(top_processes, a_comm_of_invalid_bytes_fits_whole)
{
	char expected[4 * 15 + 1] = "";

	for (int i = 0; i < 15; i++)
		memcpy(expected + strlen(expected), "\\xff", 5);
	add("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10, 3);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 1);
	check(0, expected, 1, 3);
}

Test(top_processes, names_that_are_too_long_or_empty_or_control_a_terminal)
{
	char longest[4000] = "";

	memset(longest, 'x', sizeof(longest) - 1);
	add(longest, 10, 3);
	add("\033[2J", 11, 2);
	add("", 12, 1);
	cr_assert_eq(top_processes_find(&p, GROUP_BY_NAME, top, 5), 3);
	cr_expect_eq(strlen(top[0].name), sizeof(top[0].name) - 1, "it is cut and ends with NUL");
	check(1, "\\x1b[2J", 1, 2);
	check(2, "[unknown]", 1, 1);
}
