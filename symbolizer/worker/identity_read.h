/* SPDX-License-Identifier: Apache-2.0 */
/* Reads container and environment variables of a process from files in /proc, through descriptors
 * that the opener sent. */
#ifndef SYMBOLIZER_WORKER_IDENTITY_READ_H
#define SYMBOLIZER_WORKER_IDENTITY_READ_H

#include <stdint.h>

#include "parse/cgroup.h"
#include "parse/environ.h"
#include "role/process_reader.h"
#include "symbolizer/worker/limits.h"

enum {
	IDENTITY_NAMES_MAX = LIMIT_IDENTITY_VARIABLES + 1, /* and that of the service name */
	IDENTITY_NAME_BYTES = 64
};

/* The buffer into which all files are read, one after the other. */
struct identity_buffer {
	char *bytes;
	size_t size; /* at least CGROUP_TEXT_MAX */
};

struct identity_found {
	struct cgroup_container container;
	struct environ_variable variables[IDENTITY_NAMES_MAX];
};

/*
 * Reads what `found` holds. `fds` are stat, cgroup, and environ or nothing, as in struct
 * msg_identity; they are borrowed. `start_ticks` is when the process started, in clock ticks since
 * boot. Only the names of `found->variables` are the caller's to fill in, the first
 * `variable_count` of them. `reader` reads the environment, or is NULL. Returns 0; -ESRCH if the
 * process is gone, or is another one; nothing was found then.
 */
int identity_read(const int *fds, unsigned int fd_count, uint64_t start_ticks,
		  struct process_reader *reader, struct identity_buffer *buffer,
		  struct identity_found *found, unsigned int variable_count);

#endif
