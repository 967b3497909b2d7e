/* SPDX-License-Identifier: Apache-2.0 */
/* The clock and what the kernel says about the thread are replaced. */
#include <criterion/criterion.h>
#include <sys/resource.h>
#include <time.h>

#include "common/time_units.h"
#include "common/work_time.h"

static uint64_t now_ns = NS_PER_S;
static struct rusage usage;

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_getrusage(__rusage_who_t who, struct rusage *result);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	time->tv_sec = (time_t)(now_ns / NS_PER_S);
	time->tv_nsec = (long)(now_ns % NS_PER_S);
	return 0;
}

int __wrap_getrusage(__rusage_who_t who, struct rusage *result)
{
	cr_assert_eq(who, RUSAGE_THREAD);
	*result = usage;
	return 0;
}

/* Returns the own time of work that takes 50 ms with 3 ms of CPU time. */
static uint64_t spend(long interruptions)
{
	uint64_t passed_ns, own_ns;

	usage = (struct rusage){.ru_utime = {.tv_sec = 1, .tv_usec = 999000},
				.ru_stime = {.tv_sec = 2, .tv_usec = 500000},
				.ru_nivcsw = 7};
	const struct work_time begin = work_time_begin();

	now_ns += 50 * NS_PER_MS;
	usage.ru_utime = (struct timeval){.tv_sec = 2};
	usage.ru_stime.tv_usec += 2000;
	usage.ru_nivcsw += interruptions;
	work_time_end(&begin, &passed_ns, &own_ns);
	cr_expect_eq(passed_ns, 50 * NS_PER_MS);
	cr_expect_eq(work_time_cpu_ns(&begin), 3 * NS_PER_MS);
	return own_ns;
}

Test(work_time, waiting_for_a_disk_is_own_time)
{
	cr_expect_eq(spend(0), 50 * NS_PER_MS);
}

Test(work_time, waiting_for_a_cpu_is_not)
{
	cr_expect_eq(spend(1), 3 * NS_PER_MS);
}

Test(work_time, short_work_is_own_time)
{
	const struct work_time begin = work_time_begin();
	uint64_t passed_ns, own_ns;

	now_ns += NS_PER_MS / 2;
	usage.ru_nivcsw++;
	work_time_end(&begin, &passed_ns, &own_ns);
	cr_expect_eq(own_ns, NS_PER_MS / 2);
}
