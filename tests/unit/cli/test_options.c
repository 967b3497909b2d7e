/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "common/exit_status.h"

enum {
	ARGUMENTS_MAX = 160
};

/* A file that replaces stderr: the tests only check whether something was printed. */
static int said;

static void quiet(void)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_NONBLOCK), 0);
	said = fds[0];
	dup2(fds[1], STDERR_FILENO);
	int null = open("/dev/null", O_WRONLY);
	dup2(null, STDOUT_FILENO);
	close(null);
}

static bool something_said(void)
{
	char text[4096];

	return read(said, text, sizeof(text)) > 0;
}

TestSuite(options, .init = quiet);

/* Arguments end with NULL. */
static int parse(struct record_options *o, ...)
{
	/* Static, because the options point into it. */
	static char *arguments[ARGUMENTS_MAX];
	int count = 0;
	va_list args;

	arguments[count++] = (char *)(uintptr_t) "record";
	va_start(args, o);
	while (count < ARGUMENTS_MAX && (arguments[count] = va_arg(args, char *)))
		count++;
	va_end(args);
	cr_assert_lt(count, ARGUMENTS_MAX);
	optind = 0;
	return options_parse_record(count, arguments, o);
}

#define PARSE(o, ...) parse(o, __VA_ARGS__, NULL)
#define ACCEPTED(...) cr_expect_eq(PARSE(&o, "-o", "x.html", __VA_ARGS__), 0)
#define REFUSED(...)                                                                               \
	do {                                                                                       \
		cr_expect_eq(PARSE(&o, "-o", "x.html", __VA_ARGS__), STATUS_USAGE, #__VA_ARGS__);  \
		cr_expect(something_said(), "nothing was said of " #__VA_ARGS__);                  \
	} while (0)

Test(options, runtimes_are_a_set_of_names)
{
	struct record_options o;

	ACCEPTED("--runtimes", "cpython");
	cr_expect_eq(o.runtimes, 1u << RUNTIME_ID_CPYTHON);
	ACCEPTED("--runtimes=hotspot, CPython");
	cr_expect_eq(o.runtimes, 1u << RUNTIME_ID_CPYTHON | 1u << RUNTIME_ID_HOTSPOT);
	ACCEPTED("--runtimes", "none");
	cr_expect_eq(o.runtimes, 0);
	ACCEPTED("--runtimes", "all");
	cr_expect_eq(o.runtimes, RUNTIME_SET_ALL);
	ACCEPTED("--strict-memory");
	cr_expect(o.strict_memory);
	/* An extra comes with its runtime, and "all" has none. */
	ACCEPTED("--runtimes", "goroutine_ids");
	cr_expect_eq(o.runtimes, 1u << RUNTIME_ID_GO | 1u << RUNTIME_ID_GOROUTINE_IDS);
	ACCEPTED("--runtimes", "all,goroutine_ids");
	cr_expect_eq(o.runtimes, RUNTIME_SET_ALL | 1u << RUNTIME_ID_GOROUTINE_IDS);
	REFUSED("--runtimes", "");
	REFUSED("--runtimes", "python");
	REFUSED("--runtimes", "cpython,python");
	REFUSED("--runtimes", "cpython hotspots");
	REFUSED("--runtimes", "all,none");
	REFUSED("--runtimes");
	REFUSED("--strict-memory=yes");
}

Test(options, defaults_of_all_options)
{
	struct record_options o;

	cr_assert_eq(PARSE(&o, "-o", "out.html"), 0);
	cr_assert_eq(o.frequency_hz, 99);
	cr_assert_eq(o.runtimes, RUNTIME_SET_ALL);
	cr_assert_not(o.strict_memory);
	cr_assert_eq(o.duration_ns, 0);
	cr_assert_eq(o.pid_count, 0);
	cr_assert_eq(o.tid, 0);
	cr_assert_null(o.cgroup);
	cr_assert_null(o.comm);
	cr_assert_null(o.command);
	cr_assert_null(o.stats_path);
	cr_assert_not(o.user_only);
	cr_assert_not(o.kernel_only);
	cr_assert_lt(o.max_loss, 0);
	cr_assert_eq(o.stats_fd, -1);
	cr_assert_eq(o.output_count, 1);
	cr_assert_str_eq(o.outputs[0].path, "out.html");
	cr_assert_str_eq(o.outputs[0].format, "html");
	cr_assert_eq(o.outputs[0].fd, -1);
}

Test(options, all_options_can_be_combined)
{
	struct record_options o;

	cr_assert_eq(PARSE(&o, "--freq", "997", "--duration=1m", "--pid", "1,2,3", "-p4", "-t",
			   "77", "--all", "-G", "/sys/fs/cgroup/x", "--comm", "worker", "--user",
			   "--stats", "s.json", "--max-loss", "1%", "--output=a.folded"),
		     0);
	cr_assert_eq(o.frequency_hz, 997);
	cr_assert_eq(o.duration_ns, 60000000000u);
	cr_assert_eq(o.pid_count, 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(o.pids[i], i + 1);
	cr_assert_eq(o.tid, 77);
	cr_assert_str_eq(o.cgroup, "/sys/fs/cgroup/x");
	cr_assert_str_eq(o.comm, "worker");
	cr_assert(o.user_only);
	cr_assert_str_eq(o.stats_path, "s.json");
	cr_assert_float_eq(o.max_loss, 0.01, 1e-12);
}

Test(options, durations_need_a_known_unit)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
	    {"10", 10000000000},   {"10s", 10000000000}, {"500ms", 500000000}, {"2m", 120000000000},
	    {"1h", 3600000000000}, {"0.5", 500000000},	 {"1.5s", 1500000000}, {"0.001ms", 1000},
	};
	static const char *const bad[] = {
	    "",	  "0",	   "0s",  "-1",	 "-1s",	  "s",	   "ms",   "10x",  "10 s",	   "10sec",
	    "1d", "1h30m", "nan", "inf", "1e300", "1e30s", "10s ", "1,5s", "0.0000000001", "--"};
	struct record_options o;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ACCEPTED("-d", good[i].text);
		cr_expect_eq(o.duration_ns, good[i].ns, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(PARSE(&o, "-o", "x.html", "-d", bad[i]), STATUS_USAGE, "-d '%s'",
			     bad[i]);
		cr_expect(something_said());
	}
}

Test(options, frequencies_are_1_to_10000_hz)
{
	static const char *const bad[] = {
	    "", "0", "-1", "+5", " 5", "10001", "99.5", "99hz", "18446744073709551617", "x"};
	struct record_options o;

	ACCEPTED("-F", "1");
	cr_assert_eq(o.frequency_hz, 1);
	ACCEPTED("-F10000");
	cr_assert_eq(o.frequency_hz, 10000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(PARSE(&o, "-o", "x.html", "-F", bad[i]), STATUS_USAGE, "-F '%s'",
			     bad[i]);
		cr_expect(something_said());
	}
}

Test(options, process_ids_are_checked)
{
	static const char *const bad[] = {"",  ",",   "1,",	 ",1",		 "1,,2",
					  "0", "1,0", "-1",	 "1 2",		 "1;2",
					  "x", "1x",  "4194304", "1,99999999999"};
	struct record_options o;

	ACCEPTED("-p", "4194303");
	cr_assert_eq(o.pids[0], 4194303);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(PARSE(&o, "-o", "x.html", "-p", bad[i]), STATUS_USAGE, "-p '%s'",
			     bad[i]);
		cr_expect(something_said());
	}
	REFUSED("-t", "0");
	REFUSED("-t", "1,2");
	REFUSED("-t", "");
	ACCEPTED("-t", "4194303");
	REFUSED("-t", "4194304");
}

Test(options, at_most_64_process_ids)
{
	struct record_options o;
	char list[16 * (MSG_FILTER_TARGETS_MAX + 1)] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < MSG_FILTER_TARGETS_MAX; i++)
		used +=
		    (size_t)snprintf(list + used, sizeof(list) - used, "%s%u", i ? "," : "", i + 1);
	ACCEPTED("-p", list);
	cr_assert_eq(o.pid_count, MSG_FILTER_TARGETS_MAX);
	cr_assert_eq(o.pids[MSG_FILTER_TARGETS_MAX - 1], MSG_FILTER_TARGETS_MAX);
	REFUSED("-p", list, "-p", "1000");
	snprintf(list + used, sizeof(list) - used, ",1000");
	REFUSED("-p", list);
}

Test(options, format_holds_for_the_outputs_that_follow)
{
	struct record_options o;

	cr_assert_eq(PARSE(&o, "-o", "a.html", "--format", "folded", "-o", "b", "-o", "c.html",
			   "--format=tree", "-o", "-"),
		     0);
	cr_assert_eq(o.output_count, 4);
	cr_assert_str_eq(o.outputs[0].format, "html");
	cr_assert_str_eq(o.outputs[1].format, "folded");
	cr_assert_str_eq(o.outputs[2].format, "folded");
	cr_assert_str_eq(o.outputs[3].format, "tree");
	cr_assert_str_eq(o.outputs[3].path, "-");
	REFUSED("--format", "svg");
	REFUSED("--format", "");
}

Test(options, without_an_output_there_is_one_without_a_path)
{
	struct record_options o;

	cr_assert_eq(PARSE(&o, "-a"), 0);
	cr_assert_eq(o.output_count, 1);
	cr_assert_null(o.outputs[0].path);
	cr_assert_str_eq(o.outputs[0].format, "html");
	cr_assert_eq(PARSE(&o, "--format", "pprof"), 0);
	cr_assert_eq(o.output_count, 1);
	cr_assert_str_eq(o.outputs[0].format, "pprof");
	cr_assert_eq(parse(&o, NULL), 0);
	cr_assert_eq(o.output_count, 1);
}

Test(options, at_most_8_outputs_each_with_a_format)
{
	struct record_options o;

	cr_assert_eq(PARSE(&o, "-o", "out"), STATUS_USAGE);
	cr_assert_eq(PARSE(&o, "-o", "-"), STATUS_USAGE, "the name does not tell");
	cr_assert_eq(PARSE(&o, "-o", "a.html", "-o", "b.html", "-o", "c.html", "-o", "d.html", "-o",
			   "e.html", "-o", "f.html", "-o", "g.html", "-o", "h.html"),
		     0);
	cr_assert_eq(o.output_count, LIMIT_OUTPUTS);
	cr_assert_eq(PARSE(&o, "-o", "a.html", "-o", "b.html", "-o", "c.html", "-o", "d.html", "-o",
			   "e.html", "-o", "f.html", "-o", "g.html", "-o", "h.html", "-o",
			   "i.html"),
		     STATUS_USAGE);
}

Test(options, directories_of_debug_files_are_kept_in_their_order)
{
	struct record_options o;

	ACCEPTED("-a");
	cr_expect_eq(o.debug_directory_count, 0);
	ACCEPTED("--debug-dir", "/srv/debug", "--debug-dir=relative/path");
	cr_assert_eq(o.debug_directory_count, 2);
	cr_expect_str_eq(o.debug_directories[0], "/srv/debug");
	cr_expect_str_eq(o.debug_directories[1], "relative/path");
	REFUSED("--debug-dir");
}

Test(options, at_most_7_directories_of_debug_files)
{
	struct record_options o;

	ACCEPTED("--debug-dir", "1", "--debug-dir", "2", "--debug-dir", "3", "--debug-dir", "4",
		 "--debug-dir", "5", "--debug-dir", "6", "--debug-dir", "7");
	cr_assert_eq(o.debug_directory_count, DEBUG_DIRECTORIES_MORE_MAX);
	cr_expect_eq(o.debug_directory_count, LIMIT_DEBUG_DIRECTORIES - 1, "and /usr/lib/debug");
	for (unsigned int i = 0; i < o.debug_directory_count; i++)
		cr_expect_eq(o.debug_directories[i][0], (char)('1' + i));
	REFUSED("--debug-dir", "1", "--debug-dir", "2", "--debug-dir", "3", "--debug-dir", "4",
		"--debug-dir", "5", "--debug-dir", "6", "--debug-dir", "7", "--debug-dir", "8");
}

Test(options, thread_names_have_at_most_15_bytes)
{
	struct record_options o;

	ACCEPTED("--comm", "fifteen-letters");
	cr_assert_str_eq(o.comm, "fifteen-letters");
	REFUSED("--comm", "sixteen-letters.");
}

Test(options, max_loss_is_a_share_or_a_percentage)
{
	static const struct {
		const char *text;
		double share;
	} good[] = {{"0", 0},	 {"1", 1},  {"0.01", 0.01}, {"1%", 0.01},
		    {"100%", 1}, {"0%", 0}, {"0.5%", 0.005}};
	static const char *const bad[] = {"",	 "%",	"1.1", "101%", "-1", "-1%",
					  "nan", "inf", "1%%", "1 %",  "x",  "0.1x"};
	struct record_options o;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ACCEPTED("--max-loss", good[i].text);
		cr_expect_float_eq(o.max_loss, good[i].share, 1e-12, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(PARSE(&o, "-o", "x.html", "--max-loss", bad[i]), STATUS_USAGE,
			     "--max-loss '%s'", bad[i]);
		cr_expect(something_said());
	}
}

Test(options, arguments_after_two_dashes_are_the_command)
{
	struct record_options o;

	ACCEPTED("--", "make", "-j4", "--freq", "5");
	cr_assert(o.command);
	cr_assert_str_eq(o.command[0], "make");
	cr_assert_str_eq(o.command[1], "-j4");
	cr_assert_str_eq(o.command[3], "5");
	cr_assert_null(o.command[4]);
	cr_assert_eq(o.frequency_hz, 99, "what follows -- is the command's");
	ACCEPTED("--");
	cr_assert_null(o.command);
	REFUSED("make");
	REFUSED("make", "-j4");
	REFUSED("-p", "1", "--", "make");
	REFUSED("-t", "1", "--", "make");
}

Test(options, processes_are_grouped_by_name_unless_pid_is_asked_for)
{
	struct record_options o;

	ACCEPTED("-a");
	cr_assert_eq(o.group_by, GROUP_BY_NAME);
	ACCEPTED("--group-by", "pid");
	cr_assert_eq(o.group_by, GROUP_BY_PID);
	ACCEPTED("--group-by", "pid", "--group-by=name");
	cr_assert_eq(o.group_by, GROUP_BY_NAME);
	ACCEPTED("--group-by", "thread");
	cr_assert_eq(o.group_by, GROUP_BY_THREAD);
	REFUSED("--group-by", "");
	REFUSED("--group-by", "comm");
}

Test(options, lines_and_inlined_functions_are_chosen)
{
	struct record_options o;

	ACCEPTED("-a");
	cr_assert(!o.lines && !o.without_inlined);
	ACCEPTED("--lines");
	cr_assert(o.lines && !o.without_inlined);
	ACCEPTED("--no-inline");
	cr_assert(!o.lines && o.without_inlined);
	REFUSED("--lines=yes");
}

Test(options, user_and_kernel_exclude_each_other)
{
	struct record_options o;

	REFUSED("-U", "-K");
	REFUSED("--user", "--kernel");
	ACCEPTED("-K");
	cr_assert(o.kernel_only);
}

Test(options, unknown_and_incomplete_options_are_refused)
{
	struct record_options o;

	REFUSED("-x");
	REFUSED("--nonsense");
	REFUSED("-F");
	REFUSED("--freq");
	REFUSED("-d");
	REFUSED("--user=yes");
	cr_assert_eq(PARSE(&o, "-o"), STATUS_USAGE);
}

Test(options, help_ends_the_parsing)
{
	struct record_options o;

	cr_assert_eq(PARSE(&o, "--help"), -1);
	cr_assert_eq(PARSE(&o, "-h", "--nonsense"), -1);
}
