/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of /proc/PID for a role that must not wait for the process.
 *
 * How this works. The kernel reads environ and maps under the lock of the process's address space,
 * and a page of its memory may have to come from a file. Usually that takes microseconds. But a
 * process that maps a file of a file system that does not answer holds the lock for as long as it
 * likes, and so does an honest one whose network file system is gone. Who reads then waits, and
 * where it is a page that is missing, not even SIGKILL ends that. So a helper of the role
 * (role/helper.h) reads, one request at a time. It gets the descriptor with each request. If it
 * does not answer in time (role/patience.h) it is dropped, and the process is left alone for a
 * time, as if the role itself had hung (role/work_page.h).
 *
 * A request costs some ten microseconds. Who reads memory in thousands of small pieces reads
 * itself, and is watched (role/process_work.h).
 *
 * Example: process 42 keeps its environment in a file of a FUSE server that does not answer. The
 * helper of the worker hangs. After 100 ms the worker drops it, and shows no service name for 42.
 */
#ifndef ROLE_PROCESS_READER_H
#define ROLE_PROCESS_READER_H

#include <stdint.h>
#include <sys/types.h>

#include "role/helper.h"
#include "role/work_page.h"

struct process_reader {
	struct helper helper;
	const char *name;	/* of the helper */
	struct work_page *page; /* says for whom is read; may be NULL */
	uint64_t logged_ns;
};

/* Sets up a reader without a helper, which is started when it is needed first. Its name has 15
 * bytes at most. */
void process_reader_init(struct process_reader *reader, struct loop *loop, const char *name,
			 struct work_page *page);

/* Starts the helper before it is needed. Returns 0 or a negative errno. */
int process_reader_start(struct process_reader *reader);

/* Has the helper read `size` bytes at `offset` of a file of the process in the work page. If there
 * is no helper, because too many hang, or `reader` is NULL, this reads itself: who makes helpers
 * hang must not cost others what is hardly ever waited for. Returns the number of bytes, less than
 * `size` at the end of the file; -ETIMEDOUT if the process is left alone from now on; or the
 * negative errno of pread(2). */
ssize_t process_reader_read(struct process_reader *reader, int fd, uint64_t offset, void *buffer,
			    size_t size);

/* Drops the helper, and waits a moment for its end. */
void process_reader_stop(struct process_reader *reader);

/* Collects helpers that have ended after they were dropped. */
void process_reader_tick(struct process_reader *reader);

#endif
