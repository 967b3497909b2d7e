/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/identity_read.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/file_read.h"
#include "parse/proc_maps.h"

enum {
	STAT_BYTES = 1024 /* one line with 52 numbers and a name of 15 bytes, see proc(5) */
};

/*
 * Returns whether all descriptors belong to the process that started at `start_ticks`. A descriptor
 * of a file in /proc/PID always belongs to one process, and reading fails once that process has
 * ended. `stat` was opened first: if it has the right start time now, those that were opened after
 * it belong to the same process.
 */
static bool is_process(int stat_fd, uint64_t start_ticks)
{
	char stat[STAT_BYTES];
	uint64_t ticks;
	const ssize_t n = file_read_fully_at(stat_fd, 0, stat, sizeof(stat));

	return n > 0 && proc_stat_start(stat, (size_t)n, &ticks) && ticks == start_ticks;
}

int identity_read(const int *fds, unsigned int fd_count, uint64_t start_ticks,
		  struct process_reader *reader, struct identity_buffer *buffer,
		  struct identity_found *found, unsigned int variable_count)
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
	/* The file is empty for a kernel thread, and after the process has executed another
	 * program. */
	n = process_reader_read(reader, fds[2], 0, buffer->bytes, buffer->size);
	if (n > 0)
		environ_find(buffer->bytes, (size_t)n, found->variables, variable_count);
	return 0;
}
