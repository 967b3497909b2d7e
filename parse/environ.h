/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/environ: NUL-terminated "NAME=value", as the process was started, or whatever it wrote
 * there since (environ(7), proc_pid_environ(5)). */
#ifndef PARSE_ENVIRON_H
#define PARSE_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>

enum {
	ENVIRON_VALUE_MAX = 256 /* bytes of a value that are passed on */
};

struct environ_variable {
	const char *name; /* wanted; not empty, without '=' */
	bool found;
	/* UTF-8 without control characters: U+FFFD stands for what was none. Cut at a character. */
	char value[ENVIRON_VALUE_MAX + 1];
};

/* Look for each of `count` names; of several values, the first counts, as for getenv(3). What
 * follows the last NUL is not looked at: its end may be missing. */
void environ_find(const char *block, size_t length, struct environ_variable *variables,
		  unsigned int count);

#endif
