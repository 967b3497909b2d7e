/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States by number. A CFA program changes the offset of the CFA all the time and anything else now
 * and then, among few possibilities: so a state is what it has beside that offset, its shape, known
 * by number, and the offset; both in one word, a brief. What an instruction makes of a shape, and
 * the sink's number of a rule, are looked up; only what was not seen of late is computed
 * (cfi_state.h). Internal to cfi*.c.
 */
#ifndef PARSE_CFI_SHAPES_H
#define PARSE_CFI_SHAPES_H

#include "parse/cfi_state.h"

enum {
	/* Of one section. Real ones have some hundreds; more than this are over the budget. */
	CFI_SHAPES_MAX = 1 << 16,
	/* Set in the number of a shape whose CFA is not plain; its offset is part of it. */
	CFI_SHAPE_ODD = 1 << 16,

	/* Large programs have a thousand rules, of a hundred shapes. */
	CFI_NUMBERS_BITS = 11,
	CFI_CHANGES_BITS = 9,
	CFI_BUCKETS = 256,
};

struct cfi_shape;

/* Looked up by a key that is never 0; a slot has the last one that fell to it. */
struct cfi_slot {
	uint64_t key;
	uint32_t value;
};

struct cfi_shapes {
	const struct cfi_sink *sink;
	uint64_t patience;	  /* how often a state may still be looked for */
	struct cfi_shape *shapes; /* by number, from 1 on */
	uint32_t count, allocated;
	uint32_t buckets[CFI_BUCKETS]; /* chains of shapes */
	/* By shape and instruction: the shape after it. By brief: the number of its rule. */
	struct cfi_slot changes[1 << CFI_CHANGES_BITS], numbers[1 << CFI_NUMBERS_BITS];
};

/* For as many instructions, of which nearly all change no shape, or one that is remembered. */
int cfi_shapes_init(struct cfi_shapes *shapes, const struct cfi_sink *sink, uint64_t instructions);
void cfi_shapes_fini(struct cfi_shapes *shapes);

static inline uint64_t cfi_brief(uint32_t shape, int32_t cfa_offset)
{
	return (uint64_t)shape << 32 | (uint32_t)cfa_offset;
}

static inline uint32_t cfi_brief_shape(uint64_t brief)
{
	return (uint32_t)(brief >> 32);
}

static inline int32_t cfi_brief_cfa_offset(uint64_t brief)
{
	return (int32_t)brief;
}

static inline bool cfi_brief_is_odd(uint64_t brief)
{
	return brief & (uint64_t)CFI_SHAPE_ODD << 32;
}

/* To and fro. -E2BIG: there are too many shapes, or too much looking for them; -ENOMEM. */
int cfi_shapes_shorten(struct cfi_shapes *shapes, const struct cfi_state *state, uint64_t *brief);
struct cfi_state cfi_shapes_spell(const struct cfi_shapes *shapes, uint64_t brief);

static inline struct cfi_slot *cfi_slot_of(struct cfi_slot *slots, unsigned int bits, uint64_t key)
{
	return &slots[key * 0x9e3779b97f4a7c15ull >> (64 - bits)];
}

/* Ask the sink for a state's number, and remember it. */
int cfi_shapes_ask(struct cfi_shapes *shapes, uint64_t brief, uint32_t *number);

/* The sink's number of a state's rule. */
static inline int cfi_shapes_number(struct cfi_shapes *shapes, uint64_t brief, uint32_t *number)
{
	const struct cfi_slot *slot = cfi_slot_of(shapes->numbers, CFI_NUMBERS_BITS, brief);

	if (__builtin_expect(slot->key != brief, 0))
		return cfi_shapes_ask(shapes, brief, number);
	*number = slot->value;
	return 0;
}

#endif
