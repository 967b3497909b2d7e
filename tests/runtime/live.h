/* SPDX-License-Identifier: Apache-2.0 */
/* A live process that is stopped: its threads, its mappings with unwind tables, and its runtimes.
 * It needs root. */
#ifndef TESTS_RUNTIME_LIVE_H
#define TESTS_RUNTIME_LIVE_H

#include <sys/types.h>

#include "tests/runtime/fixture.h"
#include "tests/support/unwind_memory.h"

enum {
	LIVE_THREADS_MAX = 512,
	LIVE_SLABS = 31
};

struct live_module {
	char path[512];
	struct table table;
};

struct live {
	pid_t pid;
	int memory_fd;
	pid_t threads[LIVE_THREADS_MAX]; /* those that live_stop() has stopped */
	unsigned int thread_count;
	struct unwind_memory unwind;
	struct slab_block mappings;
	unsigned int mapping_count;
	struct live_module modules[CASE_MODULES_MAX]; /* with the same indexes as in the case */
	struct case_file *file;
};

/* Prepares to record the process `pid` into `file`. Returns 0 or a negative errno. */
int live_init(struct live *live, pid_t pid, struct case_file *file);
void live_fini(struct live *live);

/* Stops all threads, and continues them. Returns 0 or a negative errno. */
int live_stop(struct live *live);
void live_go_on(struct live *live);

/* Reads the mappings, builds tables of new files, and finds the runtimes. The process must be
 * stopped. Returns 0 or a negative errno. */
int live_refresh(struct live *live);

/* Starts the recording of one thread: sets the registers, and empties the recordings. */
int live_begin_thread(struct live *live, pid_t tid);

/* Ends it: keeps only those mappings that the walk has used, and adds the rules. */
void live_finish_thread(struct live *live, const struct walk_in_process_result *result);

void live_tables(const struct live *live, struct fixture_tables *tables);

#endif
