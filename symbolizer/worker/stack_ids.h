/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of stacks, and the reset of all ids.
 *
 * How this works:
 * - The kernel side sends the frames of a stack once, with an id of its own (header->stack_id), and
 *   later only that id. The worker records which of its ids that is, per tgid, for longer than
 *   the kernel side refers to it: in two maps, of the current period and of the one before.
 * - When there are too many ids, all are reset: every map is emptied, ids start again from 1, and
 *   the next batch tells the exporter to drop its ids too. The kernel side must not refer to stacks
 *   from before, so the reset has two steps. stack_ids_request_reset() increments a generation that
 *   the kernel side reads, which makes it send the frames of each stack again. The reset itself
 *   follows once all records made in the 10 ms after that were consumed, when no BPF program still
 *   runs that read the old generation.
 * - Stacks that come between the two steps are retained with their frames: the kernel side will
 *   refer to them after the reset, so they are defined again then.
 * - If a batch is lost, the exporter lacks definitions, and both steps happen at once
 *   (stack_ids_reset()). Samples that refer to a stack from before the reset are lost and counted
 *   (LOSS_STACK_UNDEFINED).
 *
 * Example: the kernel side sends stack 700 with frames: the worker defines it as its stack 1. Later
 * records with stack 700 and no frames become samples of stack 1. A reset is requested; stack 701
 * comes with frames, is defined as 2, and is retained. At the reset everything is dropped, and 701
 * is defined again, as 1. Stack 700 comes next with its frames, as the kernel side was told.
 */
#ifndef SYMBOLIZER_WORKER_STACK_IDS_H
#define SYMBOLIZER_WORKER_STACK_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "symbolizer/worker/id_map.h"

struct worker;
struct retained_stack;

struct stack_ids {
	/* By the kernel side's id and the tgid: ours. */
	struct id_map current, previous;
	uint64_t current_since_ns; /* when the current period began, in the time of the records */
	uint64_t requested_ns;	   /* when the kernel side was last told to send all stacks again */
	bool send_again;	   /* as soon as a second has passed since sent_again_ns */
	uint64_t sent_again_ns;
	uint64_t reset_at_ns; /* 0: no reset is due. Otherwise ids are reset when all records
				 made before this were consumed */
	struct retained_stack *retained;
	size_t retained_count;
};

/* Sets *id to the id of a sample's stack, which is defined in the batch if it is new. Returns 0;
 * -ENOENT if the record refers to a stack of which there is no definition; -EAGAIN if naming its
 * frames pauses (frames.h); or -ENOMEM. */
int stack_ids_get(struct worker *worker, const struct bh_sample *header, const uint64_t *frames,
		  uint32_t *id);

/* Tells the kernel side, whose control page has just come, to refer to no stack that it has sent to
 * an earlier worker. References that are in the ring already are lost. */
void stack_ids_begin(struct worker *worker);

/* Lets the kernel side send every stack again with its frames soon, and at most once per second.
 * Its references to earlier ones stay valid. */
void stack_ids_send_again(struct worker *worker);

/* Tells the kernel side to send every stack again, and resets all ids soon. */
void stack_ids_request_reset(struct worker *worker);

/* Does what stack_ids_send_again() has asked for. Resets all ids if that was requested long enough
 * ago; requests it if there are too many ids. All records made before `time_ns` were consumed. */
void stack_ids_reset_when_due(struct worker *worker, uint64_t time_ns);

/* Resets all ids at once and drops the batch with its samples, which count as lost: the exporter
 * does not have the definitions of ids. */
void stack_ids_reset(struct worker *worker);

#endif
