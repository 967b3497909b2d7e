/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOLIZER_WORKER_NAMES_DUE_H
#define SYMBOLIZER_WORKER_NAMES_DUE_H

/*
 * When a frame that was looked up should be looked up again, because its name was not found for a
 * reason that may pass. Of a stack, it is the largest of its frames.
 *
 * Example: there is no time to name a frame of process 42, which was in use for long: it is looked
 * up again within a second. Process 43 is left alone for an hour: to have all stacks sent again
 * each second would not help.
 */
enum names_due {
	NAMES_FINAL,
	NAMES_LATER, /* when the kernel side sends the frames of the stack again by itself: within
			17 s */
	NAMES_SOON,  /* the kernel side is asked to send them again (stack_ids_send_again) */
};

#endif
