/* SPDX-License-Identifier: Apache-2.0 */
/* How the summary, html, folded and tree combine the samples of processes. */
#ifndef COMMON_GROUP_BY_H
#define COMMON_GROUP_BY_H

#include <stdbool.h>

enum group_by {
	/* Processes of one name are one entry. This is the default: a build with 105 compiler
	 * processes is one tower. */
	GROUP_BY_NAME,
	GROUP_BY_PID,	 /* each process has its own entry */
	GROUP_BY_THREAD, /* by the thread's name, as perf script has it */
	GROUP_BY_COUNT
};

/* "name", "pid" and "thread": the values of --group-by. */
extern const char *const group_by_names[GROUP_BY_COUNT];

/* Sets `group_by` and returns true if `text` is one of these names. */
bool group_by_parse(const char *text, enum group_by *group_by);

#endif
