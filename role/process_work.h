/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does work for which the memory of a process is read in thousands of small pieces, for a role that
 * must not wait for the process.
 *
 * How this works. As with process_reader.h, a process can have its readers wait for ever: for the
 * lock of its address space, or for a page. To ask a helper for each piece would take ten times as
 * long as reading it. So a helper does all of the work, not only the reading. It shares the role's
 * memory (role/helper.h), so the work is done as the role would do it, with the same functions on
 * the same data. The role only waits until it is done.
 *
 * Each read goes to a buffer of the helper first, and the helper notes that it reads. If it does
 * not come back from a read in time (role/patience.h), the role marks it as given up and kills it,
 * and the process is left alone for a time. From then on the helper touches nothing of the role: it
 * can be given up only while it reads, and a read only writes into its own buffer. So the rest of
 * the memory is as the work has left it. What the work was changing then may be unfinished, and
 * must not be used again. If many short waits take as long together, reading fails, and the work
 * ends as with any other failure.
 *
 * If the helper dies otherwise, it was in the middle of a change, so the role ends too. That is no
 * different from the death of a role that does all work itself.
 *
 * Example: process 42 replaces a mapping of a file that a FUSE server does not write, so its lock
 * is taken for ever, while the worker's helper reads the name of a function. 100 ms later the
 * worker drops the helper, logs that, and drops what it knew about the runtime of 42. The next
 * work is done by a new helper.
 */
#ifndef ROLE_PROCESS_WORK_H
#define ROLE_PROCESS_WORK_H

#include <stdint.h>
#include <sys/types.h>

#include "role/helper.h"
#include "role/work_page.h"

struct process_work {
	struct helper helper;
	const char *name;		/* of the helper */
	struct work_page *page;		/* says for whom is worked; may be NULL */
	struct process_work_desk *desk; /* what the present helper shares with the role, or NULL */
	bool is_apart;			/* a helper works now */
	uint64_t used_ns;
	uint64_t logged_ns;
};

/* Sets up a role without a helper, which is started when it is needed first. Its name has 15 bytes
 * at most. */
void process_work_init(struct process_work *work, struct loop *loop, const char *name,
		       struct work_page *page);

/* Has the helper call `run` with `context`, which reads memory by process_work_read() only, and
 * waits for its end. `fd` is the descriptor of the memory, which stays the caller's, or -1. If
 * there is no helper, most likely because too many hang already because of others, the role does
 * the work itself: the process is worth that risk. It also does if `work` is NULL. Returns 0, or
 * -ETIMEDOUT if the helper was given up, and what `run` uses is lost. */
int process_work_run(struct process_work *work, void (*run)(void *context), void *context, int fd);

/* Called by `run`: reads as process_memory_read(), but also returns -ETIMEDOUT: the work has waited
 * for too long in all. */
ssize_t process_work_read(struct process_work *work, int fd, pid_t pid, uint64_t address,
			  void *buffer, size_t length);

/* Returns how much time helpers have needed for work (common/work_time.h) since this was asked
 * last. */
uint64_t process_work_take_used_ns(struct process_work *work);

/* Drops the helper, and waits a moment for its end. */
void process_work_stop(struct process_work *work);

/* Collects helpers that have ended after they were dropped. */
void process_work_tick(struct process_work *work);

#endif
