/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/cfi_shapes.h"

#include <errno.h>
#include <stdlib.h>

enum {
	SHAPES_INITIAL = 64,
	/* Computing a shape takes as long as a dozen other instructions, or, where forged ones fall
	 * into one bucket, a dozen for each of them. Large programs compute some thousands. */
	PATIENCE_MIN = 1000,
	PATIENCE_PART = 8,
};

struct cfi_shape {
	struct cfi_state state; /* with a CFA offset of 0, if that is plain */
	uint32_t next;		/* in its bucket; 0 ends */
};

int cfi_shapes_init(struct cfi_shapes *shapes, const struct cfi_sink *sink, uint64_t instructions)
{
	*shapes = (struct cfi_shapes){.sink = sink,
				      .patience = PATIENCE_MIN + instructions / PATIENCE_PART,
				      .count = 1,
				      .allocated = SHAPES_INITIAL};
	shapes->shapes = malloc(SHAPES_INITIAL * sizeof(*shapes->shapes));
	return shapes->shapes ? 0 : -ENOMEM;
}

void cfi_shapes_fini(struct cfi_shapes *shapes)
{
	free(shapes->shapes);
}

static uint32_t *shapes_bucket(struct cfi_shapes *shapes, const struct cfi_state *state)
{
	uint64_t words[sizeof(*state) / sizeof(uint64_t)], hash = 0;

	memcpy(words, state, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return &shapes->buckets[hash % CFI_BUCKETS];
}

static int shapes_add(struct cfi_shapes *shapes, const struct cfi_state *state, uint32_t *bucket)
{
	if (shapes->count == CFI_SHAPES_MAX)
		return -E2BIG;
	if (shapes->count == shapes->allocated) {
		uint32_t want = shapes->allocated * 2;
		struct cfi_shape *grown = realloc(shapes->shapes, want * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		shapes->shapes = grown;
		shapes->allocated = want;
	}
	shapes->shapes[shapes->count] = (struct cfi_shape){*state, *bucket};
	*bucket = shapes->count++;
	return 0;
}

int cfi_shapes_shorten(struct cfi_shapes *shapes, const struct cfi_state *state, uint64_t *brief)
{
	const bool plain = cfi_state_cfa_is_plain(state);
	struct cfi_state shape = *state;

	if (plain)
		shape.rule.cfa_offset = 0;
	uint32_t *bucket = shapes_bucket(shapes, &shape), n = *bucket;
	for (;; n = shapes->shapes[n].next) {
		if (!shapes->patience)
			return -E2BIG;
		shapes->patience--;
		if (!n || !memcmp(&shapes->shapes[n].state, &shape, sizeof(shape)))
			break;
	}
	if (!n) {
		int rc = shapes_add(shapes, &shape, bucket);
		if (rc < 0)
			return rc;
		n = *bucket;
	}
	*brief = plain ? cfi_brief(n, state->rule.cfa_offset) : cfi_brief(n | CFI_SHAPE_ODD, 0);
	return 0;
}

struct cfi_state cfi_shapes_spell(const struct cfi_shapes *shapes, uint64_t brief)
{
	const uint32_t number = cfi_brief_shape(brief) & ~(uint32_t)CFI_SHAPE_ODD;
	struct cfi_state state = shapes->shapes[number].state;

	if (!cfi_brief_is_odd(brief))
		state.rule.cfa_offset = cfi_brief_cfa_offset(brief);
	return state;
}

int cfi_shapes_ask(struct cfi_shapes *shapes, uint64_t brief, uint32_t *number)
{
	const struct cfi_state state = cfi_shapes_spell(shapes, brief);
	uint32_t value;

	int rc = shapes->sink->rule(shapes->sink->context, &state.rule, &value);
	if (rc < 0)
		return rc;
	*cfi_slot_of(shapes->numbers, CFI_NUMBERS_BITS, brief) = (struct cfi_slot){brief, value};
	*number = value;
	return 0;
}
