/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that processes generate, from the files that they write for profilers:
 * /tmp/perf-PID.map or jit-PID.dump (jit_file.h). Both are called maps here.
 *
 * How this works. A frame in memory that belongs to no file has no name of its own. When the first
 * stack with such a frame comes from a process, the opener is asked for the map of this process.
 * The sample waits in the ring for the answer and until the map is read, a few milliseconds at
 * most, so that its frames are described once. All such waits have one share of the time, of which
 * each process has a part. A sample that cannot wait is described without the name, and once more
 * when its frames come again.
 *
 * The process writes to its map as long as it runs. So the rest of the map is read about once per
 * second while the process is sampled, and when an address has no name. Reading is done in slices
 * and has a share of the time, too: a large map costs only its own process its names for a moment.
 *
 * What makes sure that no name is that of other code:
 * - a map counts only for one process and one program of it: it is dropped after an exec;
 * - a map that was last written before the process started is that of another one with its pid
 *   (clock_history.h);
 * - entries that replace others have ids of their own. A frame's key contains the id, and that of a
 *   stack the generation of the map, which changes with the first such entry.
 * - a jitdump says when code was made. A sample that came before that has the name of the code
 * which was there then. A frame may still have the name of code that was replaced a second or two
 * ago: a map does not say when code is freed, and stacks are sent again once per second. Only the
 * process that wrote the map can make that happen.
 *
 * Example: node (pid 42) runs with --perf-basic-prof. Its first sample has the frame
 * 0x7f1200001010. The opener hands out /proc/42/root/tmp/perf-42.map, which has 3 MB: the sample
 * waits for 12 ms, and its frame is then "LazyCompile:~render page.js:12".
 */
#ifndef SYMBOLIZER_WORKER_JIT_MAPS_H
#define SYMBOLIZER_WORKER_JIT_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/time_share.h"
#include "ipc/peer.h"
#include "symbolizer/worker/clock_history.h"
#include "symbolizer/worker/names_due.h"

struct worker;
struct jit_map;
struct managed_process;

enum {
	JIT_MAPS_BUCKETS = 256,
};

struct jit_maps {
	struct jit_map *buckets[JIT_MAPS_BUCKETS]; /* by tgid */
	unsigned int count;
	uint64_t bytes; /* of all names */
	/* The last ones that were assigned. */
	uint64_t entry_id, generation;
	uint32_t cookie;
	struct time_share waiting, reading;
	uint64_t full_logged_ns;
	struct clock_history clocks;
	/* Stacks have names that they had not, or others: the kernel side is to send them again. */
	bool changed;
	/* Of the stack that is being defined: the map, NULL if there is none; the process, NULL if
	 * it has no language runtime; what names depend on that it has for debuggers; and when it
	 * was sampled. */
	struct jit_map *sampled;
	struct managed_process *process;
	uint64_t code_generation;
	uint64_t sampled_ns;
};

void jit_maps_init(struct jit_maps *maps);
void jit_maps_free(struct jit_maps *maps);

/* Selects the map for the frames of a stack that came with its frames, and asks for it if the stack
 * has a frame that it could name. Returns what the names depend on: the generation of the map, the
 * code that was replaced since the sample, and what the process has for debuggers
 * (runtimes_code_generation()); 0 if there is nothing, or the stack has no such frame. */
uint64_t jit_maps_select(struct worker *worker, const struct bh_sample *header,
			 const uint64_t *frames);

struct jit_name {
	const char *name; /* NULL: there is none, and nothing else is set */
	const char *file; /* "" if unknown */
	uint32_t line;	  /* 0 if unknown */
};

/* Finds the name of an address in the map that was selected. Returns NAMES_FINAL with a name, which
 * is valid until a map changes; NAMES_FINAL without a name: there is no map; another enum names_due
 * without a name; or -EAGAIN: the sample should wait. */
int jit_maps_find(struct worker *worker, uint64_t address, struct jit_name *name);

/* Returns what the name of an address depends on: the id of its entry in the map that was selected,
 * and what the process has for debuggers. 0: nothing. */
uint64_t jit_maps_name_id(const struct jit_maps *maps, uint64_t address);

/* Handles the opener's answer. May take its descriptor, which is then -1 in the message. */
void jit_maps_on_answer(struct worker *worker, struct message *message);

/* The process ended: its map is dropped in a few seconds, when no more samples of it can come. */
void jit_maps_on_process_gone(struct worker *worker, uint32_t tgid);

/* Reads on in the maps that need it. */
void jit_maps_tick(struct worker *worker);

#endif
