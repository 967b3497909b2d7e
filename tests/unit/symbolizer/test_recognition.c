/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules are recognised as language runtimes, and when. */
#include <criterion/criterion.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/support/timespec_add.h"
#include "tests/unit/symbolizer/python_module.h"

enum {
	MODULE = 7
};

static struct worker worker;
static struct work_page page;
static int table = -1;
static uint64_t skipped_ns, step_ns; /* by which the clock is ahead; and more each time */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	const int r = __real_clock_gettime(clock, time);

	skipped_ns += step_ns;
	timespec_add(time, skipped_ns);
	return r;
}

FAKE_PEER(NULL);

static void setup(void)
{
	table = prepare_runtimes(&worker);
	worker.modules.recognising.most_ns = 1000 * NS_PER_S;
	worker.role.work_page = worker.modules.work_page = &page;
}

TestSuite(recognition, .init = setup);

static void begin(void)
{
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, BH_RUNTIMES_ALL);
}

/* Returns the number of slices until nothing is left to do. */
static unsigned int finish(void)
{
	unsigned int slices = 0;

	for (; recognition_is_under_way(&worker); slices++)
		recognition_go_on(&worker);
	return slices;
}

static unsigned int watched(void)
{
	return fake_peer.attempts[MESSAGE_WATCH];
}

Test(recognition, modules_announced_after_the_table_are_watched)
{
	begin();
	recognition_on_module(&worker, add_python(&worker, MODULE));
	finish();
	cr_expect_eq(watched(), 1);
	recognition_on_module(&worker, modules_find(&worker.modules, MODULE));
	finish();
	cr_expect_eq(watched(), 1, "once");
}

Test(recognition, modules_announced_before_the_table_are_watched)
{
	recognition_on_module(&worker, add_python(&worker, MODULE));
	finish();
	cr_expect_eq(watched(), 0);
	begin();
	finish();
	cr_expect_eq(watched(), 1);
}

Test(recognition, large_files_are_read_in_slices)
{
	begin();
	step_ns = 3 * NS_PER_MS;
	recognition_on_module(&worker, add_python(&worker, MODULE));
	recognition_on_module(&worker, add_python(&worker, MODULE + 1));
	recognition_on_module(&worker, add_python(&worker, MODULE + 2));
	cr_expect_eq(watched(), 0);
	cr_expect_eq(worker.recognition.unrecognised, 2, "they wait");
	/* Those that are removed meanwhile are not watched. */
	for (uint32_t id = MODULE; id <= MODULE + 1; id++) {
		recognition_on_module_gone(&worker, modules_find(&worker.modules, id));
		modules_remove(&worker.modules, id);
	}
	cr_expect_gt(finish(), 10);
	cr_expect_eq(watched(), 1);
	cr_expect(runtimes_know_image(&worker, MODULE + 2));
	cr_expect_not(runtimes_know_image(&worker, MODULE));
	cr_expect_eq(worker.recognition.unrecognised, 0);
}

/* New files that somebody maps all the time must not keep others from their turn. */
Test(recognition, modules_have_their_turn_in_the_order_of_their_ids)
{
	begin();
	step_ns = 3 * NS_PER_MS;
	recognition_on_module(&worker, add_python(&worker, MODULES_BUCKETS - 1));
	recognition_on_module(&worker, add_python(&worker, MODULES_BUCKETS));
	recognition_on_module(&worker, add_python(&worker, MODULES_BUCKETS + 1));
	while (watched() < 2)
		recognition_go_on(&worker);
	cr_expect(runtimes_know_image(&worker, MODULES_BUCKETS));
	cr_expect_not(runtimes_know_image(&worker, MODULES_BUCKETS + 1));
	finish();
	cr_expect(runtimes_know_image(&worker, MODULES_BUCKETS + 1));
}

Test(recognition, has_a_share_of_the_time)
{
	begin();
	step_ns = NS_PER_MS;
	recognition_on_module(&worker, add_python(&worker, MODULE));
	recognition_on_module(&worker, add_python(&worker, MODULE + 1));
	cr_assert(recognition_is_under_way(&worker));
	step_ns = 0;
	time_share_spend(&worker.modules.recognising, 2000 * NS_PER_S);
	finish();
	cr_expect_eq(watched(), 1, "a file is read to its end");
	cr_expect_eq(worker.recognition.unrecognised, 1);
	worker.modules.recognising.left_ns = (int64_t)(1000 * NS_PER_S);
	skipped_ns += 100 * NS_PER_MS;
	recognition_go_on(&worker);
	finish();
	cr_expect_eq(watched(), 2);
}

Test(recognition, may_end_in_the_middle)
{
	begin();
	step_ns = 3 * NS_PER_MS;
	recognition_on_module(&worker, add_python(&worker, MODULE));
	cr_assert(recognition_is_under_way(&worker));
	recognition_free(&worker);
	runtimes_free(&worker);
	modules_fini(&worker.modules);
}

/* An earlier worker hung or died while it read this file. */
Test(recognition, a_file_that_is_left_alone_is_recognised_later)
{
	const struct module *module = add_python(&worker, MODULE);
	const struct quarantine_key file = {QUARANTINE_FILE,
					    {module->subject.device, module->subject.inode}};

	cr_assert_neq(module->subject.inode, 0);
	quarantine_add(&page.quarantine, &file, clock_monotonic_ns());
	begin();
	finish();
	cr_expect_eq(watched(), 0);
	page.quarantine = (struct quarantine){0};
	skipped_ns += 100 * NS_PER_MS;
	recognition_go_on(&worker);
	finish();
	cr_expect_eq(watched(), 1);
	cr_expect_eq(page.subject.inode, module->subject.inode);
	cr_expect_lt(worker.modules.recognising.left_ns, 1000 * NS_PER_S);
}
