/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work in slices, between which a role serves its peers.
 *
 * How this works. To read the symbols of a large file takes some hundred milliseconds, and a role
 * must not be deaf for longer than 20 ms. So such work has a stack of its own. At each read of a
 * file (common/file_read.h) and in its long loops, slices_pause_when_due() is called. It returns at
 * once, unless the slice is over: then slices_work() returns, and the work stays where it is, with
 * its stack, until it is continued. So parsers need not be written as
 * machines that can stop anywhere.
 *
 * Between two slices anything may happen. So the work uses only what nobody else changes meanwhile.
 *
 * Example: the worker reads the symbols of a file, which takes 42 ms, in slices of 5 ms. The first
 * slice ends in the middle of a sort. The worker handles the messages that have come, continues
 * with the sort, and so on. In the ninth slice the work ends, and slices_work() returns 0.
 */
#ifndef COMMON_SLICES_H
#define COMMON_SLICES_H

#include <stdbool.h>
#include <stdint.h>

/* Work in slices, or none. All zeros: none. */
struct slices {
	struct slices_stack *stack; /* NULL: no work has begun that has not ended */
};

/* Works for about `slice_ns` nanoseconds: continues the work that is under way, or begins to call
 * `run` with `context`; without memory for a stack, to its end. It must not be called by work in
 * slices. Returns 0 if the work has ended, or -EAGAIN if it is to be continued. */
int slices_work(struct slices *slices, void (*run)(void *context), void *context,
		uint64_t slice_ns);

/* Continues work to its end, if some is under way. */
void slices_finish(struct slices *slices);

/* Returns whether work is under way. */
static inline bool slices_are_under_way(const struct slices *slices)
{
	return slices->stack;
}

/* To be called by long work. It may return much later, if it is done in slices. */
void slices_pause_when_due(void);

#endif
