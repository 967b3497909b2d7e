/* SPDX-License-Identifier: Apache-2.0 */
/* From a frame as it was sampled to the id of a frame with a name. All functions define what is new
 * in the batch, and return 0 or -ENOMEM. */
#ifndef SYMBOLIZER_WORKER_FRAMES_H
#define SYMBOLIZER_WORKER_FRAMES_H

#include <stdint.h>

struct managed_process;
struct worker;

/* The id of a kernel or native frame, or of one in code that belongs to no file. */
int frames_get_id(struct worker *worker, uint64_t frame, uint32_t *id);

/* The ids of a managed frame of `process` (NULL: nothing is recorded of it). `words` are as the
 * walker pushed them. Inlining makes one frame of the stack stand for several functions, or for
 * none: `*count` consecutive ids from `*first` on, leaf first. */
int frames_get_managed_ids(struct worker *worker, struct managed_process *process,
			   const uint64_t *words, uint32_t *first, uint32_t *count);

/* The id of the frame that ends an incomplete stack, named for `reason` (enum bh_reason). */
int frames_get_abort_id(struct worker *worker, unsigned int reason, uint32_t *id);

#endif
