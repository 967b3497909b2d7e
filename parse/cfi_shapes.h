/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interns the states of CFA programs, so that most instructions are a table lookup. See
 * cfi_shapes.c for how this works. Internal to cfi*.c.
 */
#ifndef PARSE_CFI_SHAPES_H
#define PARSE_CFI_SHAPES_H

#include "common/hash.h"
#include "parse/cfi_state.h"

enum {
	/* Shapes of one section. Real files have some hundreds; more are over the budget. */
	CFI_SHAPES_MAX = 1 << 16,
	/* Set in the shape's part of a handle if the CFA is not plain. Then the offset is in the
	 * table, as a part of the shape, and not in the handle. */
	CFI_SHAPE_OFFSET_IN_TABLE = 1 << 16,

	/* log2 of slots. Large programs have a thousand rules, of a hundred shapes. */
	CFI_RULE_IDS_BITS = 11,
	CFI_CHANGES_BITS = 9,
	CFI_BUCKETS_BITS = 8,
};

struct cfi_shape;

/* A slot of a cache. It holds the last key that fell into it; a key is never 0. */
struct cfi_slot {
	uint64_t key;
	uint32_t value;
};

struct cfi_shapes {
	const struct cfi_sink *sink;
	uint64_t comparisons_left; /* budget for searching the table */
	struct cfi_shape *shapes;  /* by id, from 1 on */
	uint32_t count;
	size_t capacity;
	uint32_t buckets[1 << CFI_BUCKETS_BITS]; /* the first shape of each chain; 0: none */
	/* Two caches: (shape, instruction) -> shape, and handle -> the sink's rule id. */
	struct cfi_slot changes[1 << CFI_CHANGES_BITS], rule_ids[1 << CFI_RULE_IDS_BITS];
};

/* Initialises an empty table. The budget of searches follows from `instructions`, that of the
 * section. Returns 0 or -ENOMEM. */
int cfi_shapes_init(struct cfi_shapes *shapes, const struct cfi_sink *sink, uint64_t instructions);
void cfi_shapes_fini(struct cfi_shapes *shapes);

/* Returns the handle of a shape's id and an offset of the CFA. */
static inline uint64_t cfi_handle(uint32_t shape, int32_t cfa_offset)
{
	return (uint64_t)shape << 32 | (uint32_t)cfa_offset;
}

static inline uint32_t cfi_handle_shape(uint64_t handle)
{
	return (uint32_t)(handle >> 32);
}

static inline int32_t cfi_handle_cfa_offset(uint64_t handle)
{
	return (int32_t)handle;
}

static inline bool cfi_handle_offset_in_table(uint64_t handle)
{
	return handle & (uint64_t)CFI_SHAPE_OFFSET_IN_TABLE << 32;
}

/* Finds the handle of a state, whose shape is added if it is new. Returns 0; -E2BIG: too many
 * shapes, or too many searches; -ENOMEM. */
int cfi_shapes_intern(struct cfi_shapes *shapes, const struct cfi_state *state, uint64_t *handle);

/* Returns the state of a handle. */
struct cfi_state cfi_shapes_lookup(const struct cfi_shapes *shapes, uint64_t handle);

static inline struct cfi_slot *cfi_slot_of(struct cfi_slot *slots, unsigned int bits, uint64_t key)
{
	return &slots[hash_bucket(key, bits)];
}

/* Asks the sink for the id of a state's rule, and caches it. Returns 0, or the sink's error. */
int cfi_shapes_request_rule_id(struct cfi_shapes *shapes, uint64_t handle, uint32_t *id);

/* Finds the sink's id of a state's rule, in the cache or by asking the sink. */
static inline int cfi_shapes_rule_id(struct cfi_shapes *shapes, uint64_t handle, uint32_t *id)
{
	const struct cfi_slot *slot = cfi_slot_of(shapes->rule_ids, CFI_RULE_IDS_BITS, handle);

	if (__builtin_expect(slot->key != handle, 0))
		return cfi_shapes_request_rule_id(shapes, handle, id);
	*id = slot->value;
	return 0;
}

#endif
