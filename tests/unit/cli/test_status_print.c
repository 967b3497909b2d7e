/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cli/status_print.h"

static struct agent_report report;

static const char *print(void (*fn)(const struct agent_report *, FILE *))
{
	static char text[16384];
	FILE *out = fmemopen(text, sizeof(text), "w");

	text[0] = 0;
	cr_assert_not_null(out);
	fn(&report, out);
	fclose(out);
	return text;
}

static void set_error(const char *message)
{
	report.now_boot_ns = 10000000000;
	report.stats.last_failure_boot_ns = 7000000000;
	memcpy(report.stats.last_message, message, strlen(message) + 1);
}

Test(status_print, json_keeps_utf8_and_escapes_quotes_and_controls_of_the_error)
{
	set_error("caf\xc3\xa9 \"down\"\x1b[31m\x7f");
	cr_expect_not_null(
	    strstr(print(status_print_json),
		   "\"last_error\": \"caf\xc3\xa9 \\\"down\\\"\\u001b[31m\\u007f\"}"));
}

Test(status_print, json_replaces_bytes_that_are_not_utf8)
{
	set_error("a\xff"
		  "b");
	cr_expect_not_null(strstr(print(status_print_json), "\"last_error\": \"a\\ufffdb\"}"));
}

Test(status_print, json_escapes_the_endpoint)
{
	memcpy(report.endpoint, "a\"b:4317", sizeof("a\"b:4317"));
	cr_expect_not_null(
	    strstr(print(status_print_json), "\"backend\": {\"endpoint\": \"a\\\"b:4317\", "));
}

Test(status_print, text_shows_the_last_error_and_its_age)
{
	set_error("connection refused");
	cr_expect_not_null(strstr(
	    print(status_print_text),
	    "          failing since the last success; last error 3 s ago: connection refused\n"));
}

Test(status_print, text_counts_each_sample_once)
{
	report.stats = (struct export_stats){.taken = 100, .delivered = 60, .waiting = 10};
	report.stats.lost.lost[0] = 5;
	cr_expect_not_null(strstr(print(status_print_text),
				  "100 taken (0.0/s), 60 delivered, 10 waiting, 25 in flight, 5 "
				  "lost\n          lost, "));
}
