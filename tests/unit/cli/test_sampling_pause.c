/* SPDX-License-Identifier: Apache-2.0 */
/* The service manager is replaced: it keeps one descriptor. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/sampling_pause.h"

#define MS 1000000ull

enum {
	NOTIFY_FD = 1000, /* only handed on */
};

static struct sampling_pause pause_of_agent;
static int kept = -1;

int __wrap_service_manager_kept(const char *name);
void __wrap_service_manager_keep(int notify_fd, const char *name, int fd);

int __wrap_service_manager_kept(const char *name)
{
	cr_expect_str_eq(name, "bulkhead-note");
	return kept < 0 ? -1 : dup(kept);
}

void __wrap_service_manager_keep(int notify_fd, const char *name, int fd)
{
	if (notify_fd < 0)
		return;
	cr_expect_eq(notify_fd, NOTIFY_FD);
	cr_expect_str_eq(name, "bulkhead-note");
	if (kept >= 0)
		close(kept);
	kept = dup(fd);
}

static void end(void)
{
	sampling_pause_close(&pause_of_agent);
	if (kept >= 0)
		close(kept);
	kept = -1;
}

TestSuite(sampling_pause, .fini = end);

Test(sampling_pause, first_start_has_none)
{
	sampling_pause_open(&pause_of_agent, -1);
	sampling_pause_end(&pause_of_agent, 5000 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 0);
}

Test(sampling_pause, lasts_from_the_last_note_to_the_end)
{
	sampling_pause_open(&pause_of_agent, -1);
	sampling_pause_note(&pause_of_agent, 1000 * MS, true);
	sampling_pause_note(&pause_of_agent, 2000 * MS, true);
	sampling_pause_end(&pause_of_agent, 3700 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 1700 * MS);
	/* It has ended. */
	sampling_pause_end(&pause_of_agent, 3800 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 1800 * MS);
}

Test(sampling_pause, is_none_while_nothing_is_to_be_sampled)
{
	sampling_pause_open(&pause_of_agent, -1);
	sampling_pause_note(&pause_of_agent, 1000 * MS, true);
	sampling_pause_note(&pause_of_agent, 2000 * MS, false);
	sampling_pause_end(&pause_of_agent, 3700 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 0);
}

Test(sampling_pause, begins_in_the_process_before)
{
	sampling_pause_open(&pause_of_agent, NOTIFY_FD);
	sampling_pause_note(&pause_of_agent, 1000 * MS, true);
	sampling_pause_close(&pause_of_agent);
	sampling_pause_open(&pause_of_agent, NOTIFY_FD);
	sampling_pause_end(&pause_of_agent, 1400 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 400 * MS);
	/* The next one, too, and sums are kept. */
	sampling_pause_close(&pause_of_agent);
	sampling_pause_open(&pause_of_agent, NOTIFY_FD);
	sampling_pause_end(&pause_of_agent, 1500 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 500 * MS);
}

/* Of another version. */
Test(sampling_pause, is_not_read_from_other_memory)
{
	kept = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(write(kept, "something else", 14), 14);
	sampling_pause_open(&pause_of_agent, NOTIFY_FD);
	sampling_pause_end(&pause_of_agent, 5000 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 0);
	/* It is replaced. */
	sampling_pause_note(&pause_of_agent, 6000 * MS, true);
	sampling_pause_close(&pause_of_agent);
	sampling_pause_open(&pause_of_agent, NOTIFY_FD);
	sampling_pause_end(&pause_of_agent, 6100 * MS);
	cr_expect_eq(sampling_pause_total(&pause_of_agent), 100 * MS);
}
