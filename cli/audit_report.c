/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit_report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check_print.h"
#include "common/array.h"

enum {
	NAME_WIDTH = 38, /* a subject, its pid and the longest property */
	RESULTS_FIRST = 256,
	/* Each role has at most 8,192 descriptors, each of which may be a difference. */
	RESULTS_MAX = 65536,
};

static const char *const status_names[AUDIT_STATUS_COUNT] = {
    [AUDIT_OK] = "ok",
    [AUDIT_DIFFERENCE] = "difference",
    [AUDIT_UNVERIFIED] = "unverified",
};

static struct audit_result *audit_add(struct audit_report *report,
				      const struct audit_subject *subject, const char *property,
				      enum audit_verdict status)
{
	if (ARRAY_RESERVE(report->results, report->capacity, report->count + 1, RESULTS_FIRST,
			  RESULTS_MAX) < 0) {
		report->incomplete = true;
		return NULL;
	}
	struct audit_result *result = &report->results[report->count++];
	*result =
	    (struct audit_result){.subject = *subject, .property = property, .status = status};
	return result;
}

void audit_ok(struct audit_report *report, const struct audit_subject *subject,
	      const char *property, const char *format, ...)
{
	struct audit_result *result = audit_add(report, subject, property, AUDIT_OK);
	va_list args;

	if (!result)
		return;
	va_start(args, format);
	vsnprintf(result->found, sizeof(result->found), format, args);
	va_end(args);
}

void audit_difference(struct audit_report *report, const struct audit_subject *subject,
		      const char *property, const char *expected, const char *format, ...)
{
	struct audit_result *result = audit_add(report, subject, property, AUDIT_DIFFERENCE);
	va_list args;

	if (!result)
		return;
	snprintf(result->expected, sizeof(result->expected), "%s", expected);
	va_start(args, format);
	vsnprintf(result->found, sizeof(result->found), format, args);
	va_end(args);
}

void audit_unverified(struct audit_report *report, const struct audit_subject *subject,
		      const char *property, int error)
{
	struct audit_result *result = audit_add(report, subject, property, AUDIT_UNVERIFIED);

	if (result)
		snprintf(result->found, sizeof(result->found), "not verified: %s", strerror(error));
}

void audit_report_cut(struct audit_report *report, size_t count)
{
	if (count < report->count)
		report->count = count;
}

bool audit_report_agrees(const struct audit_report *report, size_t first)
{
	for (size_t i = first; i < report->count; i++) {
		if (report->results[i].status != AUDIT_OK)
			return false;
	}
	return !report->incomplete;
}

static void print_text(const struct audit_report *report, bool running, FILE *out)
{
	size_t differences = 0, unverified = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct audit_result *result = &report->results[i];
		char name[AUDIT_SUBJECT_BYTES + 64], expected[AUDIT_TEXT_BYTES + 16] = "";

		if (result->subject.pid)
			snprintf(name, sizeof(name), "%s %d %s", result->subject.name,
				 (int)result->subject.pid, result->property);
		else
			snprintf(name, sizeof(name), "%s %s", result->subject.name,
				 result->property);
		if (result->expected[0])
			snprintf(expected, sizeof(expected), "expected: %s", result->expected);
		check_print_row(status_names[result->status], name, NAME_WIDTH, result->found,
				expected, out);
		differences += result->status == AUDIT_DIFFERENCE;
		unverified += result->status == AUDIT_UNVERIFIED;
	}
	if (!running && audit_report_agrees(report, 0))
		fprintf(out, "the files are as the policy says, and nothing runs: properties=%zu\n",
			report->count);
	else if (audit_report_agrees(report, 0))
		fprintf(out, "everything is as the policy says: properties=%zu\n", report->count);
	else
		fprintf(out,
			"not everything is as the policy says: differences=%zu unverified=%zu\n",
			differences, unverified);
}

/* `expected` is null where there is no difference, and `pid` where there is no process. */
static void json_result(const struct audit_result *result, bool last, FILE *out)
{
	fprintf(out, "    {\"pid\": ");
	if (result->subject.pid)
		fprintf(out, "%d", (int)result->subject.pid);
	else
		fprintf(out, "null");
	check_print_json_member(out, "subject", result->subject.name);
	check_print_json_member(out, "property", result->property);
	check_print_json_member(out, "status", status_names[result->status]);
	check_print_json_member(out, "found", result->found);
	if (result->expected[0])
		check_print_json_member(out, "expected", result->expected);
	else
		fprintf(out, ", \"expected\": null");
	fprintf(out, "}%s\n", last ? "" : ",");
}

static void json_report(const struct audit_report *report, FILE *out)
{
	fprintf(out, "{\n  \"version\": \"" BULKHEAD_VERSION "\",\n  \"agrees\": %s,\n",
		audit_report_agrees(report, 0) ? "true" : "false");
	fprintf(out, "  \"results\": [\n");
	for (size_t i = 0; i < report->count; i++)
		json_result(&report->results[i], i + 1 == report->count, out);
	fprintf(out, "  ]\n}\n");
}

void audit_report_print(const struct audit_report *report, bool running, bool json, FILE *out)
{
	if (json)
		json_report(report, out);
	else
		print_text(report, running, out);
}

void audit_report_fini(struct audit_report *report)
{
	free(report->results);
	*report = (struct audit_report){0};
}
