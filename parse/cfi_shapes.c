/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interns the states of CFA programs.
 *
 * How this works: a state is a rule (32 bytes) and little more. A CFA program changes the offset of
 * the CFA all the time, and everything else rarely, among few possibilities. So a state is divided
 * into its offset and its shape, which is the state with an offset of 0. Each distinct shape is
 * stored once and has an id. A state is then one word, a handle: id << 32 | offset.
 *
 * With handles, three things are cheap:
 *	- changing the offset (a third of all instructions) replaces the lower half of the handle;
 *	- changing anything else depends only on the shape and the instruction, so the result is
 *	  cached by these two (`changes`);
 *	- the sink's id of the rule is cached by the handle (`rule_ids`).
 * Only on a miss of a cache is the state looked up, changed (cfi_state.c) and interned again.
 *
 * Example: `push %rbp` has the instructions def_cfa_offset 16 and offset rbp at CFA - 16. The state
 * before is shape 1 (CFA = rsp + ?, rbp unchanged) with offset 8: handle 1:8. The first instruction
 * makes it 1:16. The second is found in `changes` under (shape 1, rbp at CFA - 16): shape 2. The
 * handle is 2:16, and rule_ids[2:16] is the id that the sink has assigned to this rule.
 *
 * A CFA that is an expression has an offset of another meaning. Then the offset is a part of the
 * shape (CFI_SHAPE_OFFSET_IN_TABLE), and such changes are not cached.
 *
 * Shapes are searched for in hash chains. The hash is not keyed, so a forged file can make all its
 * states fall into one chain: therefore comparisons have a budget.
 */
#include "parse/cfi_shapes.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

enum {
	SHAPES_INITIAL = 64,
	/* The budget of comparisons: this many, and one for every 8 instructions. A search costs as
	 * much as a dozen other instructions. Large programs make some thousands. */
	COMPARISONS_MIN = 1000,
	INSTRUCTIONS_PER_COMPARISON = 8,
};

struct cfi_shape {
	struct cfi_state state; /* with a CFA offset of 0, unless the offset is in the table */
	uint32_t next;		/* the next shape of its chain; 0: none */
};

int cfi_shapes_init(struct cfi_shapes *shapes, const struct cfi_sink *sink, uint64_t instructions)
{
	*shapes = (struct cfi_shapes){
	    .sink = sink,
	    .comparisons_left = COMPARISONS_MIN + instructions / INSTRUCTIONS_PER_COMPARISON,
	    .count = 1};
	return ARRAY_RESERVE(shapes->shapes, shapes->capacity, SHAPES_INITIAL, SHAPES_INITIAL,
			     CFI_SHAPES_MAX);
}

void cfi_shapes_fini(struct cfi_shapes *shapes)
{
	free(shapes->shapes);
}

static uint32_t *shapes_bucket(struct cfi_shapes *shapes, const struct cfi_state *state)
{
	uint64_t words[sizeof(*state) / sizeof(uint64_t)], hash = 0;

	memcpy(words, state, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = hash_combine(hash, words[i]);
	return &shapes->buckets[hash % (1 << CFI_BUCKETS_BITS)];
}

static int shapes_add(struct cfi_shapes *shapes, const struct cfi_state *state, uint32_t *bucket)
{
	int r = ARRAY_RESERVE(shapes->shapes, shapes->capacity, (size_t)shapes->count + 1,
			      SHAPES_INITIAL, CFI_SHAPES_MAX);

	if (r < 0)
		return r;
	shapes->shapes[shapes->count] = (struct cfi_shape){*state, *bucket};
	*bucket = shapes->count++;
	return 0;
}

int cfi_shapes_intern(struct cfi_shapes *shapes, const struct cfi_state *state, uint64_t *handle)
{
	const bool plain = cfi_state_cfa_is_plain(state);
	struct cfi_state shape = *state;

	if (plain)
		shape.rule.cfa_offset = 0;
	uint32_t *bucket = shapes_bucket(shapes, &shape), id = *bucket;
	for (;; id = shapes->shapes[id].next) {
		if (!shapes->comparisons_left)
			return -E2BIG;
		shapes->comparisons_left--;
		if (!id || !memcmp(&shapes->shapes[id].state, &shape, sizeof(shape)))
			break;
	}
	if (!id) {
		int rc = shapes_add(shapes, &shape, bucket);
		if (rc < 0)
			return rc;
		id = *bucket;
	}
	*handle = plain ? cfi_handle(id, state->rule.cfa_offset)
			: cfi_handle(id | CFI_SHAPE_OFFSET_IN_TABLE, 0);
	return 0;
}

struct cfi_state cfi_shapes_lookup(const struct cfi_shapes *shapes, uint64_t handle)
{
	const uint32_t id = cfi_handle_shape(handle) & ~(uint32_t)CFI_SHAPE_OFFSET_IN_TABLE;
	struct cfi_state state = shapes->shapes[id].state;

	if (!cfi_handle_offset_in_table(handle))
		state.rule.cfa_offset = cfi_handle_cfa_offset(handle);
	return state;
}

int cfi_shapes_request_rule_id(struct cfi_shapes *shapes, uint64_t handle, uint32_t *id)
{
	const struct cfi_state state = cfi_shapes_lookup(shapes, handle);
	uint32_t value;

	int rc = shapes->sink->rule(shapes->sink->context, &state.rule, &value);
	if (rc < 0)
		return rc;
	*cfi_slot_of(shapes->rule_ids, CFI_RULE_IDS_BITS, handle) =
	    (struct cfi_slot){handle, value};
	*id = value;
	return 0;
}
