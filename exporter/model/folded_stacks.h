/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples in the order of a folded profile: by root (thread or process name), then frame by frame
 * from the outermost, by name. Whoever walks them in this order meets equal stacks next to each
 * other and each subtree as one run, so that neither merging nor a tree needs memory for the merged
 * thing.
 */
#ifndef EXPORTER_MODEL_FOLDED_STACKS_H
#define EXPORTER_MODEL_FOLDED_STACKS_H

#include "exporter/model/profile.h"

enum fold_root {
	FOLD_THREAD_NAME,
	FOLD_PROCESS_NAME
};

struct fold {
	const struct profile *profile;
	struct profile names; /* only its strings are used */
	const char **labels;  /* sorted by bytes; a label's number is its rank */
	uint32_t labels_count;
	uint32_t *location_labels; /* by location */
	uint32_t *thread_labels;   /* by thread */
	uint32_t *samples;	   /* numbers of samples, sorted */
};

/* `clean` may change bytes of a label, not their number. 0 or -ENOMEM. */
int fold_init(struct fold *fold, const struct profile *profile, enum fold_root root,
	      void (*clean)(char *label, size_t length));
void fold_fini(struct fold *fold);

/* The label of a sample's frame, counted from the outermost; the frame must be there. */
static inline uint32_t fold_frame(const struct fold *fold, uint32_t sample, uint32_t depth)
{
	const struct profile *p = fold->profile;
	const struct profile_stack *stack = &p->stacks[p->samples[sample].stack];

	return fold->location_labels[p->stack_locations[stack->first + stack->count - 1 - depth]];
}

static inline uint32_t fold_depth(const struct fold *fold, uint32_t sample)
{
	return fold->profile->stacks[fold->profile->samples[sample].stack].count;
}

static inline uint32_t fold_root(const struct fold *fold, uint32_t sample)
{
	return fold->thread_labels[fold->profile->samples[sample].thread];
}

/* <0, 0, >0 */
int fold_compare(const struct fold *fold, uint32_t a, uint32_t b);

#endif
