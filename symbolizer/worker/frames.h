/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a frame as it was sampled to the id of a frame with a name.
 *
 * How this works. The exporter knows modules, functions and frames by dense ids, which the worker
 * assigns. For each kind there is a map from a 128-bit key to the id. A frame that was seen before
 * costs one lookup. A new one is described from the outermost part to the innermost: first its
 * module gets an id, then its function, then the frame itself. What is new is defined in the batch,
 * before any stack that refers to it.
 *
 * The keys make sure that two things never share an id: a function's key contains the address where
 * it starts, because a file may have several functions of one name; a managed frame's key contains
 * the exec generation of its process, because the same words mean something else after an exec; the
 * key of a frame whose module had no file yet changes when the file comes, so that the frame is
 * defined again, with a name.
 *
 * Example: libc.so.6 (module 5 of the manager) was sampled at offset 0x29d92.
 *
 *	key of the frame              not in the map
 *	module "/usr/lib/libc.so.6"   in the map: id 2
 *	symbol at 0x29d10             __libc_start_call_main, not in the map: id 31, defined
 *	frame 107                     {module 2, function 31, address 0x29d92}, defined
 *
 * Naming may take long. In a turn, naming managed frames pauses after a moment
 * (worker->naming_until_ns), and large files are read in slices, between which there are other
 * turns. What was named until then has its ids, and the sample is handled again in the next turn.
 *
 * All functions return 0 or -ENOMEM.
 */
#ifndef SYMBOLIZER_WORKER_FRAMES_H
#define SYMBOLIZER_WORKER_FRAMES_H

#include <stdint.h>

struct managed_process;
struct worker;

/* Inlining makes one frame of a stack stand for several functions, which have consecutive ids, the
 * innermost the highest. A number stands for all of them: the lowest id, and how many there are
 * above these bits. A frame that stands for labels has the id of their set, and a count of 0. */
enum {
	FRAME_IDS_COUNT_SHIFT = 26,
};

static inline uint32_t frame_ids_first(uint32_t ids)
{
	return ids & ((1u << FRAME_IDS_COUNT_SHIFT) - 1);
}

static inline uint32_t frame_ids_count(uint32_t ids)
{
	return ids >> FRAME_IDS_COUNT_SHIFT;
}

/* Finds the ids of a kernel or native frame, or of one in code that belongs to no file. Also
 * returns -EAGAIN: naming waits for a debug file, or for symbols that are being read. */
int frames_get_ids(struct worker *worker, uint64_t frame, uint32_t *ids);

/* Finds the ids of a managed frame of `process` (NULL: nothing is recorded of it), which may stand
 * for no function. `words` are as the walker pushed them. Also returns -EAGAIN: naming pauses
 * now. */
int frames_get_managed_ids(struct worker *worker, struct managed_process *process,
			   const uint64_t *words, uint32_t *ids);

/* Finds the ids of the frame that ends an incomplete stack, named for `reason` (enum bh_reason). */
int frames_get_abort_ids(struct worker *worker, unsigned int reason, uint32_t *ids);

#endif
