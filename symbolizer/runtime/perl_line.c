/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the line of a call in Perl.
 *
 * How this works: a context has the statement (COP) that was executed when it began. But the body
 * of an `if`, or of a loop, that has one statement only is not executed as a statement of its own:
 * Perl has replaced its COP by an op that does nothing (OP_NULL), whose line is still there. So, as
 * `caller` does (closest_cop() in util.c), the ops of the statement are searched for the one that
 * is followed by the op at which the caller goes on. The line is that of the last COP, or former
 * COP, that precedes it or one of the ops in which it is.
 *
 * Example: `if ($on) {` is in line 4, and `run();` in line 5. The COP has line 4. After it follows
 * an op for `if`, which has the condition and an op for the block. That has a former COP with line
 * 5 and the call, whose next op is that of the statement in line 7. So the call is in line 5.
 *
 * The process may forge all of this, even circles: how much may be read is limited (memory.h).
 */
#include "symbolizer/runtime/perl_line.h"

enum {
	DEPTH_MAX = 64, /* of ops in each other */

	/* BASEOP in op.h, in words. */
	OP_NEXT = 0,
	OP_SIBLING = 1, /* the next op of the same parent, if there is one, otherwise that */
	OP_TARGET = 3,	/* of an OP_NULL: what it was */
	OP_BITS = 4,	/* the type, some bits, flags, and in a COP its line */
	OP_FIRST = 5,	/* UNOP: the first one of those in it */
	OP_WORDS = 6,
	OP_HAS_SIBLING = 1 << 14, /* op_moresib */
	OP_HAS_OPS = 4 << 16,	  /* OPf_KIDS, in op_flags */
	OP_TYPE_NULL = 0,
	OP_SCOPE_AFTER_NEXTSTATE = 5, /* the type OP_SCOPE, in opnames.h of each version */
};

/* An op whose ops are searched: the next one of them, 0: there is none, and the line there. */
struct level {
	uint64_t next;
	uint32_t line;
};

static uint32_t op_type(const uint64_t op[OP_WORDS])
{
	return op[OP_BITS] & PERL_OP_TYPE_MASK;
}

static uint64_t next_sibling(const uint64_t op[OP_WORDS])
{
	return op[OP_BITS] & OP_HAS_SIBLING ? op[OP_SIBLING] : 0;
}

/* Returns the op at a distance in a place. */
static uint64_t op_at(uint64_t base, uint32_t distance)
{
	return base + (uint64_t)(int64_t)(int32_t)distance * 8;
}

uint32_t perl_line_of_call(const struct perl_offsets *offsets, struct memory *memory, uint64_t base,
			   uint64_t place, uint32_t line)
{
	const uint64_t next_op = op_at(base, (uint32_t)(place >> 32));
	const uint32_t scope = offsets->op_nextstate + OP_SCOPE_AFTER_NEXTSTATE;
	struct level levels[DEPTH_MAX];
	uint64_t op[OP_WORDS];
	unsigned int depth = 1;

	if (!place || memory_read(memory, op_at(base, (uint32_t)place), op, sizeof(op)))
		return line;
	if (!perl_is_statement(offsets, op_type(op)) || (uint32_t)(op[OP_BITS] >> 32) != line)
		return line;
	/* The ops of the statement are in its sibling, and no other one of it is searched. */
	levels[0] = (struct level){.next = next_sibling(op), .line = line};
	while (depth) {
		struct level *level = &levels[depth - 1];

		if (!level->next) {
			depth--;
			continue;
		}
		if (memory_read(memory, level->next, op, sizeof(op)))
			return line;
		level->next = depth > 1 ? next_sibling(op) : 0;
		if (op_type(op) == OP_TYPE_NULL && op[OP_TARGET] == offsets->op_nextstate)
			level->line = (uint32_t)(op[OP_BITS] >> 32);
		if (op[OP_NEXT] == next_op && op_type(op) != scope)
			return level->line;
		if (!(op[OP_BITS] & OP_HAS_OPS))
			continue;
		if (depth == DEPTH_MAX)
			return line;
		levels[depth++] = (struct level){.next = op[OP_FIRST], .line = level->line};
	}
	return line;
}
