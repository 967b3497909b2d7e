/* SPDX-License-Identifier: Apache-2.0 */
/* Worklists of code_flow.c: places in the code that still have to be followed. Internal to
 * code_flow.c. */
#ifndef PARSE_CODE_WORKLIST_H
#define PARSE_CODE_WORKLIST_H

#include <stddef.h>
#include <stdint.h>

/* Follow the code from the offset `at` on, with this frame, as a part of the function that starts
 * at the offset `owner`. */
struct code_work {
	uint32_t at;
	uint32_t frame; /* an id, see code_frame_table.h */
	uint32_t owner;
};

/* The last one pushed is popped first. All zeros is an empty list. */
struct code_worklist {
	struct code_work *items;
	size_t count, capacity;
};

/* Returns 0 or -ENOMEM. */
int code_worklist_push(struct code_worklist *list, struct code_work work);

/* The list must not be empty. */
struct code_work code_worklist_pop(struct code_worklist *list);
void code_worklist_fini(struct code_worklist *list);

#endif
