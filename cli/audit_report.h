/* SPDX-License-Identifier: Apache-2.0 */
/* The results of `bulkhead audit`: what was found of each property of each role, and how it
 * compares with the policy. */
#ifndef CLI_AUDIT_REPORT_H
#define CLI_AUDIT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum {
	AUDIT_TEXT_BYTES = 320,
	AUDIT_SUBJECT_BYTES = 32,
};

enum audit_verdict {
	AUDIT_OK,
	AUDIT_DIFFERENCE,
	AUDIT_UNVERIFIED, /* it could not be read, so it counts as a difference */
	AUDIT_STATUS_COUNT
};

/* Who is judged: a role, a helper of one, or an installed file, which has the pid 0. */
struct audit_subject {
	char name[AUDIT_SUBJECT_BYTES];
	pid_t pid;
};

struct audit_result {
	struct audit_subject subject;
	const char *property; /* for people and scripts; never changed */
	enum audit_verdict status;
	char found[AUDIT_TEXT_BYTES];
	char expected[AUDIT_TEXT_BYTES]; /* "" unless it is a difference */
};

struct audit_report {
	struct audit_result *results;
	size_t count, capacity;
	bool incomplete; /* memory ran out: results are missing */
};

/* Each adds a result. `expected` says what the policy allows. */
void audit_ok(struct audit_report *report, const struct audit_subject *subject,
	      const char *property, const char *format, ...) __attribute__((format(printf, 4, 5)));
void audit_difference(struct audit_report *report, const struct audit_subject *subject,
		      const char *property, const char *expected, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* `error` is the errno of reading it. */
void audit_unverified(struct audit_report *report, const struct audit_subject *subject,
		      const char *property, int error);

/* Removes the results from number `count` on, so that they can be found again. */
void audit_report_cut(struct audit_report *report, size_t count);

/* Returns whether all results from number `first` on are as the policy says. */
bool audit_report_agrees(const struct audit_report *report, size_t first);

/* Prints all results as text or JSON. */
void audit_report_print(const struct audit_report *report, bool running, bool json, FILE *out);

void audit_report_fini(struct audit_report *report);

#endif
