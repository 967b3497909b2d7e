/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "ipc/peer.h"
#include "common/time_units.h"
#include "symbolizer/worker/runtime_stats.h"
#include "tests/support/fake_peer.h"

static int said;
static struct runtime_stats stats;

/* The library that is tested also contains functions that send messages. */
FAKE_PEER(NULL);

static void listen_to_log(void)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_NONBLOCK), 0);
	said = fds[0];
	dup2(fds[1], STDERR_FILENO);
	unsetenv("BULKHEAD_LOG");
	log_init("test");
}

static const char *heard(void)
{
	static char text[65536];
	const ssize_t n = read(said, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return text;
}

static unsigned int lines(const char *text)
{
	unsigned int count = 0;

	while (*text)
		count += *text++ == '\n';
	return count;
}

TestSuite(runtime_stats, .init = listen_to_log);

Test(runtime_stats, frames)
{
	runtime_stats_frame(&stats, BH_RUNTIME_CPYTHON, true);
	runtime_stats_frame(&stats, BH_RUNTIME_CPYTHON, true);
	runtime_stats_frame(&stats, BH_RUNTIME_CPYTHON, false);
	/* An invalid runtime, which a forged record may contain. */
	runtime_stats_frame(&stats, BH_RUNTIME_NONE, true);
	runtime_stats_frame(&stats, BH_RUNTIME_COUNT, true);
	runtime_stats_frame(&stats, BH_MANAGED_RUNTIME_MASK, true);
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_CPYTHON].named, 2);
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_CPYTHON].unnamed, 1);
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_NONE].named, 0);
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_HOTSPOT].named, 0);
}

Test(runtime_stats, refusals_stay_on_one_line)
{
	runtime_stats_refuse(&stats, BH_RUNTIME_CPYTHON, "CPython in /tmp/a\nb\033[2J: refused");
	const char *text = heard();

	cr_expect_eq(lines(text), 1);
	cr_expect_not_null(strstr(text, "warning test: CPython in /tmp/a\\x0ab\\x1b[2J: refused"));
	runtime_stats_refuse(&stats, BH_RUNTIME_CPYTHON, NULL);
	cr_expect_str_empty(heard());
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_CPYTHON].refused, 2);
}

Test(runtime_stats, a_thousand_refusals_are_counted_but_not_all_logged)
{
	for (int i = 0; i < 1000; i++)
		runtime_stats_refuse(&stats, BH_RUNTIME_HOTSPOT, "no");
	const char *text = heard();

	cr_expect_eq(lines(text), 65);
	cr_expect_not_null(strstr(text, "further ones are counted"));
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_HOTSPOT].refused, 1000);
}

Test(runtime_stats, no_time_is_logged_once_per_minute)
{
	runtime_stats_no_time(&stats, 42, NS_PER_S);
	cr_expect_not_null(strstr(heard(), "pid=42"));
	runtime_stats_no_time(&stats, 43, 60 * NS_PER_S);
	cr_expect_str_empty(heard());
	runtime_stats_no_time(&stats, 43, 61 * NS_PER_S);
	cr_expect_not_null(strstr(heard(), "pid=43"));
}

Test(runtime_stats, no_room_is_logged_once)
{
	runtime_stats_no_room(&stats, BH_RUNTIME_CPYTHON);
	runtime_stats_no_room(&stats, BH_RUNTIME_HOTSPOT);
	runtime_stats_no_room(&stats, BH_RUNTIME_HOTSPOT);
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_CPYTHON].no_room, 1);
	cr_expect_eq(stats.by_runtime[BH_RUNTIME_HOTSPOT].no_room, 2);
	cr_expect_eq(lines(heard()), 1);
}
