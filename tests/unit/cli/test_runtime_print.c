/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cli/runtime_print.h"

static struct msg_runtime stats[RUNTIME_ID_COUNT];

static const char *print(void (*fn)(const struct msg_runtime *, FILE *))
{
	static char text[8192];
	FILE *out = fmemopen(text, sizeof(text), "w");

	text[0] = 0;
	cr_assert_not_null(out);
	fn(stats, out);
	fclose(out);
	return text;
}

Test(runtime_print, summary_shows_only_runtimes_with_faults)
{
	stats[RUNTIME_ID_CPYTHON] = (struct msg_runtime){.attached = 3, .named = 34108};
	cr_expect_str_empty(print(runtime_print_faults));
	stats[RUNTIME_ID_CPYTHON].unnamed = 12;
	cr_expect_str_eq(print(runtime_print_faults), "Python: 12 of 34120 frames have no name\n");
	stats[RUNTIME_ID_CPYTHON].refused = 1;
	stats[RUNTIME_ID_HOTSPOT].refused = 2;
	cr_expect_str_eq(print(runtime_print_faults),
			 "Python: 12 of 34120 frames have no name, 1 refused (see the log)\nJava: "
			 "2 refused (see the log)\n");
}

Test(runtime_print, status_shows_runtimes_that_were_found)
{
	cr_expect_str_empty(print(runtime_print_status));
	stats[RUNTIME_ID_HOTSPOT].attached = 2;
	cr_expect_str_eq(print(runtime_print_status), "runtimes  Java: 2 processes\n");
	stats[RUNTIME_ID_CPYTHON] = (struct msg_runtime){.named = 1, .unnamed = 1, .refused = 5};
	cr_expect_str_eq(
	    print(runtime_print_status),
	    "runtimes  Python: 0 processes, 1 of 2 frames have no name, 5 refused (see the log)\n"
	    "          Java: 2 processes\n");
}

Test(runtime_print, json_lists_every_runtime)
{
	stats[RUNTIME_ID_CPYTHON] = (struct msg_runtime){1, 2, 3, 4, 5};
	cr_expect_not_null(strstr(print(runtime_print_json),
				  "\"cpython\": {\"attached\": 1, \"refused\": 2, \"named\": 3, "
				  "\"unnamed\": 4, \"no_room\": 5}, \"hotspot\": {\"attached\": 0"));
}

Test(runtime_print, metrics_list_every_runtime)
{
	stats[RUNTIME_ID_HOTSPOT] = (struct msg_runtime){1, 2, 3, UINT64_MAX, 4};
	const char *text = print(runtime_print_metrics);

	cr_expect_not_null(strstr(text, "# TYPE bulkhead_runtime_processes gauge\n"
					"bulkhead_runtime_processes{runtime=\"cpython\"} 0\n"
					"bulkhead_runtime_processes{runtime=\"hotspot\"} 1\n"));
	cr_expect_not_null(strstr(text, "bulkhead_runtime_refused_total{runtime=\"hotspot\"} 2\n"));
	cr_expect_not_null(strstr(text,
				  "# TYPE bulkhead_runtime_frames_named_total counter\n"
				  "bulkhead_runtime_frames_named_total{runtime=\"cpython\"} 0\n"
				  "bulkhead_runtime_frames_named_total{runtime=\"hotspot\"} 3\n"));
	cr_expect_not_null(strstr(text,
				  "bulkhead_runtime_frames_unnamed_total{runtime=\"hotspot\"} "
				  "18446744073709551615\n"));
	cr_expect_not_null(strstr(text, "bulkhead_runtime_no_room_total{runtime=\"hotspot\"} 4\n"));
}

Test(runtime_print, processes_without_room_are_shown)
{
	stats[RUNTIME_ID_CPYTHON] = (struct msg_runtime){.attached = 7, .no_room = 3};
	cr_expect_str_eq(print(runtime_print_status),
			 "runtimes  Python: 7 processes, 3 times no room\n");
	stats[RUNTIME_ID_CPYTHON].refused = 1;
	cr_expect_str_eq(print(runtime_print_faults),
			 "Python: 1 refused (see the log), 3 times no room\n");
}
