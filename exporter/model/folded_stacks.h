/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of a profile, sorted by what a reader of a folded file sees: the root's name, then
 * the frames' names from the outermost to the leaf.
 *
 * How this works. Locations become labels: each location's name is interned, the labels are sorted
 * by their bytes, and each label is replaced by its rank. Two frames of one function at different
 * addresses therefore have one label, and comparing two ranks compares two names. Then the samples
 * are sorted by root and frames. In this order equal stacks are neighbours, and every subtree is
 * one contiguous range, so that neither merging equal stacks nor printing a tree needs memory for
 * its result.
 *
 * Example, grouped by name. The samples on the left have the labels app=0, main=1, read=2 and
 * write=3 (leaving out those of the "none" entries), and are sorted as on the right:
 *
 *   pid 10 "app": main -> write   2       app main read     0 1 2   1
 *   pid 11 "app": main -> write   3       app main write    0 1 3   2
 *   pid 10 "app": main -> read    1       app main write    0 1 3   3
 *
 * The folded file writes "app;main;write 5" for the last two.
 *
 * With `merge_calls`, consecutive calls of one function are one frame. Few stacks contain such
 * calls, so only these have an entry in `merged`. It lists the frames that stand for more than one
 * call, as runs. A position counts the calls from the outermost; the position of a frame is its
 * depth plus the calls that the runs before it have swallowed.
 *
 * Example: main -> rec -> rec -> rec -> read has the positions 0 to 4, and three frames. Its only
 * run is {.frame = 1, .swallowed = 2}: rec stands for 1 + 2 calls, and read, the frame at depth 2,
 * is at position 2 + 2.
 */
#ifndef EXPORTER_MODEL_FOLDED_STACKS_H
#define EXPORTER_MODEL_FOLDED_STACKS_H

#include "common/group_by.h"
#include "exporter/model/profile.h"

/* The root of a process or thread whose name is empty. */
#define FOLDED_NO_NAME "[unknown]"

struct folded_options {
	enum group_by group_by;
	bool lines;	  /* labels contain the line, so lines of one function are several frames */
	bool merge_calls; /* consecutive calls of one function are one frame */
	/* Replaces bytes of a label that the output cannot contain; it must not change the length.
	 * NULL: labels stay as they are. */
	void (*clean)(char *label, size_t length);
};

/* A frame that stands for consecutive calls. */
struct folded_run {
	uint32_t frame;	    /* depth of the frame */
	uint32_t swallowed; /* calls without a frame of their own, up to and including this run */
};

/* A stack that contains frames for several calls. */
struct folded_merged {
	uint32_t depth;		       /* number of its frames */
	uint32_t run_first, run_count; /* in folded_stacks.runs, in the order of their frames */
};

struct folded_stacks {
	const struct profile *profile;
	struct profile names; /* only its strings are used */
	const char **labels;  /* sorted by bytes; the label of rank r is labels[r] */
	uint32_t labels_count;
	uint32_t *location_labels; /* by location: rank */
	uint32_t *thread_labels;   /* by thread: rank of its root */
	/* NULL without merge_calls, or if no stack has consecutive calls. merged_at contains, by
	 * stack, the index of its entry in `merged` plus one, or 0 if each of its frames is one
	 * call. */
	uint32_t *merged_at;
	struct folded_merged *merged;
	struct folded_run *runs;
	uint32_t *samples; /* indexes of the profile's samples, sorted */
};

/* Builds the sorted view of `profile`, which must outlive it. Returns 0 or -ENOMEM. The caller
 * frees it with folded_stacks_fini(). */
int folded_stacks_init(struct folded_stacks *folded, const struct profile *profile,
		       const struct folded_options *options);
void folded_stacks_fini(struct folded_stacks *folded);

/* Returns the stack of a sample. */
static inline const struct profile_stack *folded_stacks_stack(const struct folded_stacks *folded,
							      uint32_t sample)
{
	return &folded->profile->stacks[folded->profile->samples[sample].stack];
}

/* Returns the entry of a sample's stack in `merged`, or NULL if each of its frames is one call. */
static inline const struct folded_merged *folded_stacks_merged(const struct folded_stacks *folded,
							       uint32_t sample)
{
	const uint32_t at =
	    folded->merged_at ? folded->merged_at[folded->profile->samples[sample].stack] : 0;

	return at ? &folded->merged[at - 1] : NULL;
}

/* Returns the number of frames of a sample's stack. */
static inline uint32_t folded_stacks_depth(const struct folded_stacks *folded, uint32_t sample)
{
	const struct folded_merged *merged = folded_stacks_merged(folded, sample);

	return merged ? merged->depth : folded_stacks_stack(folded, sample)->count;
}

/* Returns the position of the first call of the frame at `depth`. */
static inline uint32_t folded_stacks_position(const struct folded_stacks *folded, uint32_t sample,
					      uint32_t depth)
{
	const struct folded_merged *merged = folded_stacks_merged(folded, sample);
	uint32_t swallowed = 0;

	if (!merged)
		return depth;
	const struct folded_run *run = &folded->runs[merged->run_first];
	for (uint32_t i = 0; i < merged->run_count && run[i].frame < depth; i++)
		swallowed = run[i].swallowed;
	return depth + swallowed;
}

/* Returns the rank of the frame at `depth` from the outermost. `depth` must be below
 * folded_stacks_depth(). */
static inline uint32_t folded_stacks_frame(const struct folded_stacks *folded, uint32_t sample,
					   uint32_t depth)
{
	const struct profile_stack *stack = folded_stacks_stack(folded, sample);
	uint32_t position = folded_stacks_position(folded, sample, depth);
	uint32_t leaf_first = stack->first + stack->count - 1 - position;

	return folded->location_labels[folded->profile->stack_locations[leaf_first]];
}

/* Returns how many consecutive calls the frame at `depth` stands for. */
static inline uint32_t folded_stacks_calls(const struct folded_stacks *folded, uint32_t sample,
					   uint32_t depth)
{
	return folded_stacks_position(folded, sample, depth + 1) -
	       folded_stacks_position(folded, sample, depth);
}

/* Returns the rank of a sample's root. */
static inline uint32_t folded_stacks_root(const struct folded_stacks *folded, uint32_t sample)
{
	return folded->thread_labels[folded->profile->samples[sample].thread];
}

/* Compares two samples by root and frames. Returns <0, 0 if both are the same, or >0. */
int folded_stacks_compare(const struct folded_stacks *folded, uint32_t a, uint32_t b);

#endif
