/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does work for which the memory of a process is read in thousands of small pieces, for a role that
 * must not wait for the process.
 *
 * How this works. As with process_reader.h, a process can have its readers wait for ever: for the
 * lock of its address space, or for a page. To ask a helper for each piece would take ten times as
 * long as reading it, and on a loaded machine a thousand times. So the role reads itself, and a
 * second thread watches it. Both never work at the same time, and they share everything, also what
 * otherwise each thread has for itself.
 *
 * If a read does not come back in time (role/patience.h), the threads change places: the second one
 * becomes the role. It goes on at the end of the work, on the stack of the role, with the result
 * that the work is given up; the process is left alone for a time. The first thread stays in its
 * read. It may come back from there at any time and touches nothing of the role then: work has a
 * stack of its own, which belongs to the thread, and each read goes to a buffer of the thread
 * first. A thread that has come back is the next one that watches. The process was only slow then,
 * and is left alone for a shorter time: on an overloaded machine it may have waited for a CPU while
 * it held the lock of its address space.
 *
 * A thread can be given up only while it reads. So the memory is as the work has left it. What the
 * work was changing then may be unfinished, and must not be used again. If many short waits take as
 * long together, reading fails, and the work ends as with any other failure.
 *
 * Example: process 42 replaces a mapping of a file that a FUSE server does not write, so its lock
 * is taken for ever, while the worker reads the name of a function. 100 ms later the thread that
 * has watched is the worker. It logs that, and drops what it knew about the runtime of 42. Another
 * thread watches from now on.
 */
#ifndef ROLE_PROCESS_WORK_H
#define ROLE_PROCESS_WORK_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "role/work_page.h"

enum {
	/* Threads: the role, the one that watches, and those that have not come back. */
	PROCESS_WORK_THREADS_MAX = 5,
};

/* A thread as the C library makes them, but with the thread-local storage of the one that starts
 * it. The policy of the role allows clone(2) with these flags. */
#define PROCESS_WORK_THREAD_FLAGS                                                                  \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

struct process_work {
	struct work_page *page;		      /* says for whom is worked; may be NULL */
	struct process_work_threads *threads; /* NULL: there was no work yet, or no memory */
	uint64_t logged_ns;
};

/* Sets up a role with one thread. */
void process_work_init(struct process_work *work, struct work_page *page);

/* Calls `run` with `context`, which reads memory by process_work_read() only. If nobody can watch
 * that, most likely because too many threads have not come back from reading the memory of others,
 * it is done all the same: the process is worth that risk. It also is if `work` is NULL. Returns 0,
 * or -ETIMEDOUT if the work was given up, and what `run` uses is lost. */
int process_work_run(struct process_work *work, void (*run)(void *context), void *context);

/* To be called from time to time: looks whether work that was given up has come back, so that the
 * process was only slow. */
void process_work_look(struct process_work *work);

/* Called by `run`: reads as process_memory_read(), but also returns -ETIMEDOUT: the work has waited
 * for too long in all. */
ssize_t process_work_read(struct process_work *work, int fd, pid_t pid, uint64_t address,
			  void *buffer, size_t length);

/* To be called when the role ends. A thread that has not come back keeps the process, and would
 * keep open what others wait for: connections, and the pipe to which log lines go. */
void process_work_end(const struct process_work *work);

#endif
