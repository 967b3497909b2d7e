/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "loader/cpus.h"

/* Checks that the list contains exactly these CPUs. */
static void expect(const char *text, unsigned int count, const unsigned int *cpus)
{
	struct cpu_set set;

	cr_assert_eq(cpus_parse(text, &set), 0, "%s", text);
	for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++) {
		bool wanted = false;

		for (unsigned int i = 0; i < count; i++)
			wanted |= cpus[i] == cpu;
		cr_assert_eq(set.online[cpu], wanted, "'%s': cpu %u", text, cpu);
	}
}

#define EXPECT(text, ...)                                                                                                     \
	expect(text, sizeof((const unsigned int[]){__VA_ARGS__}) / sizeof(unsigned int), (const unsigned int[]){__VA_ARGS__})

Test(cpus, lists_of_numbers_and_ranges_are_parsed)
{
	EXPECT("0\n", 0);
	EXPECT("0", 0);
	EXPECT("0-3\n", 0, 1, 2, 3);
	EXPECT("0-1,3\n", 0, 1, 3);
	EXPECT("0,2,4-5,1023\n", 0, 2, 4, 5, 1023);
	EXPECT("7-7\n", 7);
	EXPECT("3,1,1-2\n", 1, 2, 3);
	expect("\n", 0, NULL);
	expect("", 0, NULL);
}

Test(cpus, cpus_beyond_the_maximum_are_left_out)
{
	EXPECT("1022-1025\n", 1022, 1023);
	EXPECT("1024,5\n", 5);
	EXPECT("5,4000000000-4000000001\n", 5);
	/* The parser must not count up to the end of the range. */
	EXPECT("1023-18446744073709551615\n", 1023);
	EXPECT("5,99999999999999999999999\n", 5);
	EXPECT("5,99999999999999999999998-99999999999999999999999\n", 5);
}

Test(cpus, malformed_lists_are_refused)
{
	static const char *const bad[] = {"x", "0-", "0-x", "-", ",", "0,,1", "3-1", "0,x\n", "0-1-2\n", "0x1\n"};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct cpu_set set = {.online[77] = true};

		cr_assert_eq(cpus_parse(bad[i], &set), -EINVAL, "'%s'", bad[i]);
		cr_assert(set.online[77], "untouched on failure");
		cr_assert_not(set.online[0]);
	}
}

Test(cpus, list_of_this_machine_has_every_online_cpu)
{
	char text[4096] = "";
	struct cpu_set set;
	long online = 0;
	FILE *file = fopen("/sys/devices/system/cpu/online", "re");

	if (!file)
		cr_skip_test("no sysfs");
	cr_assert_not_null(fgets(text, sizeof(text), file));
	fclose(file);
	cr_assert_eq(cpus_parse(text, &set), 0);
	for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++)
		online += set.online[cpu];
	cr_assert_eq(online, sysconf(_SC_NPROCESSORS_ONLN));
}
