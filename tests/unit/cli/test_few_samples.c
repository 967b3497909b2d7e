/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/few_samples.h"

/* Returns the facts of a recording of 10 s at 99 Hz on 2 CPUs. */
static struct few_samples_facts facts_of(enum few_samples_scope scope, uint64_t taken)
{
	return (struct few_samples_facts){
	    .scope = scope,
	    .taken = taken,
	    .duration_ns = 10000000000,
	    .frequency_hz = 99,
	    .cpu_count = 2,
	};
}

static const char *explain(const struct few_samples_facts *facts)
{
	static char text[FEW_SAMPLES_TEXT_BYTES];

	text[0] = 0;
	return few_samples_explain(facts, text) ? text : "";
}

#define EXPLAINS(facts, part)                                                                      \
	cr_expect(strstr(explain(facts), part), "%s: %s", part, explain(facts))

Test(few_samples, enough_samples_need_no_explanation)
{
	struct few_samples_facts f = facts_of(FEW_SAMPLES_OF_PROCESSES, FEW_SAMPLES);

	cr_expect_str_eq(explain(&f), "");
	f.gone = true;
	cr_expect_str_eq(explain(&f), "");
}

Test(few_samples, process_that_was_asleep)
{
	struct few_samples_facts f = facts_of(FEW_SAMPLES_OF_PROCESSES, 2);

	f.cpu_time_known = true;
	f.cpu_time_ns = 20000000;
	EXPLAINS(&f, "the selected process used 0.02 s of CPU time in 10.0 s and waited");
	EXPLAINS(&f, "only running code is sampled");
}

Test(few_samples, process_that_ended)
{
	struct few_samples_facts f = facts_of(FEW_SAMPLES_OF_PROCESSES, 0);

	f.gone = true;
	EXPLAINS(&f, "ended before it was sampled");
	f.taken = 3;
	EXPLAINS(&f, "ended while it was recorded");
}

Test(few_samples, cgroup_without_processes)
{
	struct few_samples_facts f = facts_of(FEW_SAMPLES_OF_CGROUP, 0);

	f.empty = true;
	EXPLAINS(&f, "the selected cgroup has no process");
}

Test(few_samples, recording_that_is_too_short)
{
	struct few_samples_facts f = facts_of(FEW_SAMPLES_OF_MACHINE, 5);

	f.duration_ns = 100000000;
	f.cpu_time_known = true;
	EXPLAINS(&f, "0.10 s at 99 Hz are at most 19 samples on 2 CPUs");
}

Test(few_samples, thread_name_that_nobody_has)
{
	const struct few_samples_facts f = facts_of(FEW_SAMPLES_OF_COMM, 0);

	EXPLAINS(&f, "no thread of this name ran");
}

/* For every scope and state the line is complete, and ends with what to do. */
Test(few_samples, every_reason_fits)
{
	for (int scope = 0; scope <= FEW_SAMPLES_OF_COMMAND; scope++) {
		struct few_samples_facts f = facts_of((enum few_samples_scope)scope, 0);

		f.cpu_time_ns = f.duration_ns = 1000000000000000000;
		for (int known = 0; known < 2; known++) {
			f.cpu_time_known = known;
			cr_expect_gt(strlen(explain(&f)), 40);
			cr_expect_lt(strlen(explain(&f)), FEW_SAMPLES_TEXT_BYTES - 1);
		}
	}
}

/* Uses CPU time in this process until it has used `ns` of it. */
static void burn(uint64_t ns)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec < ns);
}

Test(few_samples, cpu_time_of_a_process_is_what_it_used_since_the_start)
{
	const struct record_options o = {.pids = {(uint32_t)getpid()}, .pid_count = 1};
	struct few_samples few;

	few_samples_start(&few, &o);
	cr_assert(few.cpu_time_known);
	burn(few.cpu_time_ns + 200000000);
	const struct few_samples_facts f = few_samples_collect(&few, &o, 0, 1000000000);
	cr_expect_eq(f.scope, FEW_SAMPLES_OF_PROCESSES);
	cr_expect(f.cpu_time_known);
	cr_expect(f.cpu_time_ns >= 150000000 && f.cpu_time_ns < 2000000000, "%lu",
		  (unsigned long)f.cpu_time_ns);
	cr_expect_not(f.gone);
}

Test(few_samples, process_that_does_not_exist_is_gone)
{
	const struct record_options o = {.pids = {4194304}, .pid_count = 1};
	struct few_samples few;

	few_samples_start(&few, &o);
	cr_expect_not(few.cpu_time_known);
	cr_expect(few_samples_collect(&few, &o, 0, 1000000000).gone);
}
