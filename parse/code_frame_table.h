/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distinct frames (code_frame.h) that occur in a file's code, by id. A file has few of them, so
 * code_flow.c stores an id of 13 bits per byte of code instead of a frame of 20 bytes. Internal to
 * code_flow.c.
 */
#ifndef PARSE_CODE_FRAME_TABLE_H
#define PARSE_CODE_FRAME_TABLE_H

#include <stdint.h>

#include "parse/cfi_types.h"
#include "parse/code_frame.h"

enum {
	/* Ids that always exist: a frame of which nothing is known, and that at the first
	 * instruction of a function that was called. */
	CODE_FRAME_ID_LOST = 0,
	CODE_FRAME_ID_CALLED = 1,
	/* Two values of 13 bits are not ids: see code_flow.c. musl's libc.so has some hundred
	 * frames. */
	CODE_FRAME_IDS_MAX = (1 << 13) - 2,
	CODE_FRAME_BUCKETS = 1 << 14, /* at most half full; a power of two */
};

struct code_frame_table {
	uint32_t count;
	struct code_frame frames[CODE_FRAME_IDS_MAX]; /* by id */
	int64_t rules[CODE_FRAME_IDS_MAX];	      /* the sink's rule ids; -1: not asked yet */
	uint16_t buckets[CODE_FRAME_BUCKETS];	      /* ids + 1; 0: empty */
};

/* Initialises a table, which must be all zeros. */
void code_frame_table_init(struct code_frame_table *table);

/* Returns the id of a frame, which is assigned now if it is new, or CODE_FRAME_ID_LOST if the table
 * is full. */
uint32_t code_frame_table_intern(struct code_frame_table *table, const struct code_frame *frame);

/* Finds the sink's id of the rule of a frame. The sink is asked once for each frame. Returns 0, or
 * the sink's error. */
int code_frame_table_rule(struct code_frame_table *table, const struct cfi_sink *sink, uint32_t id,
			  uint32_t *rule);

#endif
