/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/folded_stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

#define LABEL_BYTES_MAX 4096 /* as long as a string of a profile may be */
#define KERNEL_SUFFIX "_[k]"
/* First capacities: about 1 KiB each. Few stacks have consecutive calls, most of them one run. */
#define MERGED_MIN 96
#define RUNS_MIN 128
#define PID_BYTES_MAX 16 /* " (4294967295)" and its NUL */
/* A name that is cut within a character grows by up to this many bytes when it is interned: each of
 * up to three bytes of that character becomes an escape of four bytes. */
#define CUT_BYTES 9

/* Compares two stacks in which each frame is one call. */
static int compare_stacks(const struct folded_stacks *folded, const struct profile_stack *a,
			  const struct profile_stack *b)
{
	const uint32_t *locations = folded->profile->stack_locations;
	uint32_t depth = a->count < b->count ? a->count : b->count;

	for (uint32_t i = 0; i < depth; i++) {
		uint32_t x = folded->location_labels[locations[a->first + a->count - 1 - i]];
		uint32_t y = folded->location_labels[locations[b->first + b->count - 1 - i]];
		if (x != y)
			return x < y ? -1 : 1;
	}
	return (a->count > b->count) - (a->count < b->count);
}

static int compare_merged(const struct folded_stacks *folded, uint32_t a, uint32_t b)
{
	uint32_t depth_a = folded_stacks_depth(folded, a), depth_b = folded_stacks_depth(folded, b);
	uint32_t depth = depth_a < depth_b ? depth_a : depth_b;

	for (uint32_t i = 0; i < depth; i++) {
		uint32_t x = folded_stacks_frame(folded, a, i);
		uint32_t y = folded_stacks_frame(folded, b, i);
		if (x != y)
			return x < y ? -1 : 1;
	}
	return (depth_a > depth_b) - (depth_a < depth_b);
}

int folded_stacks_compare(const struct folded_stacks *folded, uint32_t a, uint32_t b)
{
	const struct profile_sample *samples = folded->profile->samples;
	uint32_t root_a = folded_stacks_root(folded, a), root_b = folded_stacks_root(folded, b);

	if (root_a != root_b)
		return root_a < root_b ? -1 : 1;
	if (samples[a].stack == samples[b].stack)
		return 0;
	if (folded_stacks_merged(folded, a) || folded_stacks_merged(folded, b))
		return compare_merged(folded, a, b);
	return compare_stacks(folded, folded_stacks_stack(folded, a),
			      folded_stacks_stack(folded, b));
}

static int compare_samples(const void *a, const void *b, void *folded)
{
	return folded_stacks_compare(folded, *(const uint32_t *)a, *(const uint32_t *)b);
}

static int compare_strings(const void *a, const void *b, void *strings)
{
	char **s = strings;

	return strcmp(s[*(const uint32_t *)a], s[*(const uint32_t *)b]);
}

static int intern_label(struct folded_stacks *folded, const struct folded_options *options,
			char *label, size_t length, uint32_t *id)
{
	if (options->clean)
		options->clean(label, length);
	return profile_string(&folded->names, label, length, id);
}

static int intern_location(struct folded_stacks *folded, uint32_t location,
			   const struct folded_options *options)
{
	const struct profile *p = folded->profile;
	char label[LABEL_BYTES_MAX + 1], line[PROFILE_LINE_BYTES] = "";

	if (options->lines)
		profile_location_line(p, location, line);
	const size_t line_length = strlen(line);
	profile_location_name(p, location, label,
			      sizeof(label) - strlen(KERNEL_SUFFIX) - CUT_BYTES - line_length);
	size_t length = strlen(label);
	memcpy(label + length, line, line_length + 1);
	length += line_length;
	if (!strcmp(p->strings[p->locations[location].kind], "kernel")) {
		memcpy(label + length, KERNEL_SUFFIX, sizeof(KERNEL_SUFFIX));
		length += strlen(KERNEL_SUFFIX);
	}
	return intern_label(folded, options, label, length, &folded->location_labels[location]);
}

static int intern_thread(struct folded_stacks *folded, uint32_t thread,
			 const struct folded_options *options)
{
	const struct profile *p = folded->profile;
	const struct profile_thread *t = &p->threads[thread];
	const struct profile_process *process = &p->processes[t->process];
	uint32_t name = options->group_by == GROUP_BY_THREAD ? t->name : process->name;
	char label[LABEL_BYTES_MAX + PID_BYTES_MAX];
	size_t length = profile_string_length(p, name);

	memcpy(label, p->strings[name], length + 1);
	if (!length) {
		memcpy(label, FOLDED_NO_NAME, sizeof(FOLDED_NO_NAME));
		length = strlen(FOLDED_NO_NAME);
	}
	if (options->group_by == GROUP_BY_PID)
		length += (size_t)snprintf(label + length, sizeof(label) - length, " (%" PRIu32 ")",
					   process->tgid);
	return intern_label(folded, options, label, length, &folded->thread_labels[thread]);
}

/* Replaces the string ids of the labels, which are in the order of arrival, by ranks in the order
 * of the texts. */
static int rank_labels(struct folded_stacks *folded)
{
	const struct profile *p = folded->profile;
	uint32_t count = folded->names.strings_count;
	_cleanup_free_ uint32_t *order = calloc(count, sizeof(*order));
	_cleanup_free_ uint32_t *ranks = calloc(count, sizeof(*ranks));

	folded->labels = calloc(count, sizeof(*folded->labels));
	if (!order || !ranks || !folded->labels)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), compare_strings, folded->names.strings);
	for (uint32_t i = 0; i < count; i++) {
		ranks[order[i]] = i;
		folded->labels[i] = folded->names.strings[order[i]];
	}
	for (uint32_t i = 0; i < p->locations_count; i++)
		folded->location_labels[i] = ranks[folded->location_labels[i]];
	for (uint32_t i = 0; i < p->threads_count; i++)
		folded->thread_labels[i] = ranks[folded->thread_labels[i]];
	folded->labels_count = count;
	return 0;
}

/* Returns whether the call at `i`, counted from the leaf, and its caller are one function. */
static bool is_consecutive(const struct folded_stacks *folded, const struct profile_stack *stack,
			   uint32_t i)
{
	const uint32_t *locations = &folded->profile->stack_locations[stack->first];

	return folded->location_labels[locations[i]] == folded->location_labels[locations[i + 1]];
}

static bool has_consecutive_calls(const struct folded_stacks *folded,
				  const struct profile_stack *stack)
{
	for (uint32_t i = 0; i + 1 < stack->count; i++)
		if (is_consecutive(folded, stack, i))
			return true;
	return false;
}

/* State of adding entries to folded_stacks.merged. */
struct merge {
	struct folded_stacks *folded;
	size_t merged_count, merged_capacity, run_count, run_capacity;
};

/* Adds the entry of a stack that has consecutive calls. */
static int merge_calls(struct merge *merge, const struct profile_stack *stack)
{
	struct folded_stacks *f = merge->folded;
	struct folded_merged merged = {.depth = 1, .run_first = (uint32_t)merge->run_count};
	uint32_t swallowed = 0;

	for (uint32_t position = 1; position < stack->count; position++) {
		if (!is_consecutive(f, stack, stack->count - 1 - position)) {
			merged.depth++;
			continue;
		}
		const uint32_t frame = merged.depth - 1;
		const uint32_t end = merged.run_first + merged.run_count;
		if (!merged.run_count || f->runs[end - 1].frame != frame) {
			int r = ARRAY_RESERVE(f->runs, merge->run_capacity, (size_t)end + 1,
					      RUNS_MIN, UINT32_MAX);
			if (r < 0)
				return r;
			f->runs[end].frame = frame;
			merged.run_count++;
		}
		f->runs[merged.run_first + merged.run_count - 1].swallowed = ++swallowed;
	}
	int r = ARRAY_RESERVE(f->merged, merge->merged_capacity, merge->merged_count + 1,
			      MERGED_MIN, UINT32_MAX);
	if (r < 0)
		return r;
	merge->run_count += merged.run_count;
	f->merged[merge->merged_count++] = merged;
	return 0;
}

static int merge_all_calls(struct folded_stacks *folded)
{
	const struct profile *p = folded->profile;
	struct merge merge = {.folded = folded};

	for (uint32_t i = 0; i < p->stacks_count; i++) {
		if (!has_consecutive_calls(folded, &p->stacks[i]))
			continue;
		if (!folded->merged_at)
			folded->merged_at = calloc(p->stacks_count, sizeof(*folded->merged_at));
		if (!folded->merged_at)
			return -ENOMEM;
		int r = merge_calls(&merge, &p->stacks[i]);
		if (r < 0)
			return r;
		folded->merged_at[i] = (uint32_t)merge.merged_count;
	}
	return 0;
}

static int fill(struct folded_stacks *folded, const struct folded_options *options)
{
	const struct profile *p = folded->profile;
	int r = profile_init(&folded->names, SIZE_MAX);

	if (r < 0)
		return r;
	folded->location_labels = calloc(p->locations_count, sizeof(*folded->location_labels));
	folded->thread_labels = calloc(p->threads_count, sizeof(*folded->thread_labels));
	folded->samples = calloc(p->samples_count + 1ULL, sizeof(*folded->samples));
	if (!folded->location_labels || !folded->thread_labels || !folded->samples)
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < p->locations_count; i++)
		r = intern_location(folded, i, options);
	for (uint32_t i = 0; r == 0 && i < p->threads_count; i++)
		r = intern_thread(folded, i, options);
	if (r == 0)
		r = rank_labels(folded);
	if (r == 0 && options->merge_calls)
		r = merge_all_calls(folded);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->samples_count; i++)
		folded->samples[i] = i;
	qsort_r(folded->samples, p->samples_count, sizeof(*folded->samples), compare_samples,
		folded);
	return 0;
}

int folded_stacks_init(struct folded_stacks *folded, const struct profile *profile,
		       const struct folded_options *options)
{
	struct folded_stacks fresh = {.profile = profile};

	int r = fill(&fresh, options);
	if (r < 0) {
		folded_stacks_fini(&fresh);
		return r;
	}
	*folded = fresh;
	return 0;
}

void folded_stacks_fini(struct folded_stacks *folded)
{
	profile_fini(&folded->names);
	free(folded->labels);
	free(folded->location_labels);
	free(folded->thread_labels);
	free(folded->merged);
	free(folded->runs);
	free(folded->merged_at);
	free(folded->samples);
	memset(folded, 0, sizeof(*folded));
}
