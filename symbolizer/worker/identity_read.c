/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/identity_read.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/file_read.h"
#include "parse/proc_maps.h"

enum {
	STAT_BYTES = 1024 /* 52 numbers and a name */
};

/*
 * A descriptor in /proc/PID belongs to one process for ever, and gives an error once it is gone. So
 * if this one, opened first, tells the right start now, the others are of the same process.
 */
static bool is_process(int stat_fd, uint64_t start_ticks)
{
	char stat[STAT_BYTES];
	uint64_t ticks;
	const ssize_t n = file_read_fully_at(stat_fd, 0, stat, sizeof(stat));

	return n > 0 && proc_stat_start(stat, (size_t)n, &ticks) && ticks == start_ticks;
}

int identity_read(const int *fds, unsigned int fd_count, uint64_t start_ticks,
		  struct identity_buffer *buffer, struct identity_found *found,
		  unsigned int variable_count)
{
	ssize_t n;

	environ_find("", 0, found->variables, variable_count);
	found->container = (struct cgroup_container){0};
	if (fd_count < 2 || !is_process(fds[0], start_ticks))
		return -ESRCH;
	n = file_read_fully_at(fds[1], 0, buffer->bytes, CGROUP_TEXT_MAX);
	if (n < 0)
		return -ESRCH;
	cgroup_parse(buffer->bytes, (size_t)n, &found->container);
	if (fd_count < 3 || !variable_count)
		return 0;
	/* Nothing in it: a kernel thread, or the program was exchanged since. */
	n = file_read_fully_at(fds[2], 0, buffer->bytes, buffer->size);
	if (n > 0)
		environ_find(buffer->bytes, (size_t)n, found->variables, variable_count);
	return 0;
}
