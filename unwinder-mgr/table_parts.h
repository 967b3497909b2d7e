/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a file on their way from the helper that reads the file (table_builds.h).
 *
 * How this works. The helper may have been taken over by a hostile file, so what it sends is
 * checked like a message of another role. It sends packets: the rules first, because rows refer to
 * them by the helper's own ids; then the ranges; then the rows; then the end, with the result. The
 * manager enters each rule into the table that all modules share, and replaces the ids in the rows.
 * At the end it checks that the rows can be placed: offsets must ascend.
 *
 * Example: the helper sends {rule 2: CFA = rsp + 8; rule 3: CFA = rsp + 16}, {range 0x1000 to
 * 0x1020, rows 0 to 1}, {+0, 2} {+1, 3}, end. In the shared table the two rules are 7 and 31. The
 * rows become {+0, 7} {+1, 31}.
 */
#ifndef UNWINDER_MGR_TABLE_PARTS_H
#define UNWINDER_MGR_TABLE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "unwinder-mgr/unwind_table_builder.h"

enum table_part_kind {
	TABLE_PART_RULES,  /* struct table_part_rule */
	TABLE_PART_RANGES, /* struct unwind_range */
	TABLE_PART_ROWS,   /* struct unwind_row */
	TABLE_PART_END,	   /* one struct table_part_end */
};

enum {
	TABLE_PART_BYTES = 32 << 10
};

/* A packet: as many items as `count` says. */
struct table_part {
	uint32_t kind; /* enum table_part_kind */
	uint32_t count;
	uint64_t items[TABLE_PART_BYTES / 8];
};

struct table_part_rule {
	struct bh_rule rule;
	uint16_t id; /* the helper's */
	uint16_t reserved[3];
};

struct table_part_end {
	int32_t error; /* 0, or what unwind_table_build() returned: then there are no other parts */
	uint32_t reserved;
	uint64_t cpu_ns; /* that it took */
};

/* Sends what was built with `rules`, and the end. Returns 0 or a negative errno. */
int table_parts_send(int socket, const struct unwind_table_builder *builder,
		     const struct rules *rules, const struct table_part_end *end);

/* What has come so far. */
struct table_receiver {
	struct unwind_table_builder builder;
	struct rules *rules;
	uint32_t rules_most, rules_left; /* that may be added to the shared table */
	uint16_t ids[RULES_MAX];	 /* the shared id, by the helper's */
};

/* Starts to receive another file's rows, of which at most `rules_most` rules are added. What the
 * receiver had was taken, or was given up by table_receiver_drop(). */
void table_receiver_begin(struct table_receiver *receiver, struct rules *rules,
			  uint32_t rules_most);

/* Takes a packet of this length. Returns 0 if more are to come; 1 at the end: then, if end->error
 * is 0, `builder` is complete and the caller's. Otherwise a negative errno: -EPROTO if the packet,
 * or all of them together, make no sense. */
int table_receiver_take(struct table_receiver *receiver, const struct table_part *part,
			size_t length, struct table_part_end *end);

/* Gives up what has come so far. */
void table_receiver_drop(struct table_receiver *receiver, uint64_t now_ns);

#endif
