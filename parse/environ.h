/* SPDX-License-Identifier: Apache-2.0 */
/* Finds variables in /proc/PID/environ (proc_pid_environ(5)): NUL-terminated strings "NAME=value".
 * They are those with which the process was started, unless it has overwritten them since. Pure. */
#ifndef PARSE_ENVIRON_H
#define PARSE_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>

enum {
	ENVIRON_VALUE_MAX = 256 /* bytes of a value; a longer one is cut */
};

struct environ_variable {
	const char *name; /* set by the caller; not empty, without '=' */
	bool found;
	/* UTF-8 without control characters: U+FFFD replaces everything else. It is cut between
	 * characters. */
	char value[ENVIRON_VALUE_MAX + 1];
};

/* Finds each of `count` variables. If there are several values, the first one counts, as for
 * getenv(3). What follows the last NUL is ignored, because it may be cut off. */
void environ_find(const char *block, size_t length, struct environ_variable *variables,
		  unsigned int count);

#endif
