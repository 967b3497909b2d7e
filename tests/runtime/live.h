/* SPDX-License-Identifier: Apache-2.0 */
/* A live process, held still: its threads, its mappings with unwind tables, its runtimes. Root's.
 */
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
	pid_t threads[LIVE_THREADS_MAX]; /* stopped, by us */
	unsigned int thread_count;
	struct unwind_memory unwind;
	struct slab_block mappings;
	unsigned int mapping_count;
	struct live_module modules[CASE_MODULES_MAX]; /* as in the case */
	struct case_file *file;
};

/* Of `pid`, into `file`. 0 or a negative errno. */
int live_init(struct live *live, pid_t pid, struct case_file *file);
void live_fini(struct live *live);

/* Stop all threads, and let them go on. 0 or a negative errno. */
int live_stop(struct live *live);
void live_go_on(struct live *live);

/* While it is stopped: mappings, tables of new files, runtimes. 0 or a negative errno. */
int live_look(struct live *live);

/* The case of one thread: registers, empty recordings. */
int live_begin_thread(struct live *live, pid_t tid);

/* Of what is mapped only what the walk needed, and its rules, into the case. */
void live_finish_thread(struct live *live, const struct walk_in_process_result *result);

void live_tables(const struct live *live, struct fixture_tables *tables);

#endif
