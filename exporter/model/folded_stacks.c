/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/folded_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define LABEL_BYTES_MAX 4096 /* that of a string in a profile */
#define KERNEL_SUFFIX "_[k]"
#define NO_NAME "[unknown]"
/* A name that is cut within a character grows by this when it is interned: three bytes of it become
 * U+FFFD each. */
#define CUT_BYTES 6

int fold_compare(const struct fold *fold, uint32_t a, uint32_t b)
{
	uint32_t root_a = fold_root(fold, a), root_b = fold_root(fold, b);
	uint32_t depth_a = fold_depth(fold, a), depth_b = fold_depth(fold, b);
	uint32_t depth = depth_a < depth_b ? depth_a : depth_b;

	if (root_a != root_b)
		return root_a < root_b ? -1 : 1;
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t frame_a = fold_frame(fold, a, i), frame_b = fold_frame(fold, b, i);
		if (frame_a != frame_b)
			return frame_a < frame_b ? -1 : 1;
	}
	return (depth_a > depth_b) - (depth_a < depth_b);
}

static int compare_samples(const void *a, const void *b, void *fold)
{
	return fold_compare(fold, *(const uint32_t *)a, *(const uint32_t *)b);
}

static int compare_strings(const void *a, const void *b, void *strings)
{
	char **s = strings;

	return strcmp(s[*(const uint32_t *)a], s[*(const uint32_t *)b]);
}

static int intern_location(struct fold *fold, uint32_t location,
			   void (*clean)(char *label, size_t length))
{
	const struct profile *p = fold->profile;
	char label[LABEL_BYTES_MAX + 1];

	profile_location_name(p, location, label,
			      sizeof(label) - strlen(KERNEL_SUFFIX) - CUT_BYTES);
	size_t length = strlen(label);
	if (!strcmp(p->strings[p->locations[location].kind], "kernel")) {
		memcpy(label + length, KERNEL_SUFFIX, sizeof(KERNEL_SUFFIX));
		length += strlen(KERNEL_SUFFIX);
	}
	clean(label, length);
	return profile_string(&fold->names, label, length, &fold->location_labels[location]);
}

static int intern_thread(struct fold *fold, uint32_t thread, enum fold_root root,
			 void (*clean)(char *label, size_t length))
{
	const struct profile *p = fold->profile;
	const struct profile_thread *t = &p->threads[thread];
	uint32_t name = root == FOLD_THREAD_NAME ? t->name : p->processes[t->process].name;
	char label[LABEL_BYTES_MAX + 1];
	size_t length = profile_string_length(p, name);

	memcpy(label, p->strings[name], length + 1);
	if (!length) {
		memcpy(label, NO_NAME, sizeof(NO_NAME));
		length = strlen(NO_NAME);
	}
	clean(label, length);
	return profile_string(&fold->names, label, length, &fold->thread_labels[thread]);
}

/* From numbers in the order of arrival to ranks in the order of the text. */
static int rank_labels(struct fold *fold)
{
	const struct profile *p = fold->profile;
	uint32_t count = fold->names.strings_count;
	_cleanup_free_ uint32_t *order = calloc(count, sizeof(*order));
	_cleanup_free_ uint32_t *ranks = calloc(count, sizeof(*ranks));

	fold->labels = calloc(count, sizeof(*fold->labels));
	if (!order || !ranks || !fold->labels)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), compare_strings, fold->names.strings);
	for (uint32_t i = 0; i < count; i++) {
		ranks[order[i]] = i;
		fold->labels[i] = fold->names.strings[order[i]];
	}
	for (uint32_t i = 0; i < p->locations_count; i++)
		fold->location_labels[i] = ranks[fold->location_labels[i]];
	for (uint32_t i = 0; i < p->threads_count; i++)
		fold->thread_labels[i] = ranks[fold->thread_labels[i]];
	fold->labels_count = count;
	return 0;
}

static int fill(struct fold *fold, enum fold_root root, void (*clean)(char *, size_t))
{
	const struct profile *p = fold->profile;
	int r = profile_init(&fold->names, SIZE_MAX);

	if (r < 0)
		return r;
	fold->location_labels = calloc(p->locations_count, sizeof(*fold->location_labels));
	fold->thread_labels = calloc(p->threads_count, sizeof(*fold->thread_labels));
	fold->samples = calloc(p->samples_count + 1ULL, sizeof(*fold->samples));
	if (!fold->location_labels || !fold->thread_labels || !fold->samples)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->locations_count && r == 0; i++)
		r = intern_location(fold, i, clean);
	for (uint32_t i = 0; i < p->threads_count && r == 0; i++)
		r = intern_thread(fold, i, root, clean);
	if (r == 0)
		r = rank_labels(fold);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->samples_count; i++)
		fold->samples[i] = i;
	qsort_r(fold->samples, p->samples_count, sizeof(*fold->samples), compare_samples, fold);
	return 0;
}

int fold_init(struct fold *fold, const struct profile *profile, enum fold_root root,
	      void (*clean)(char *label, size_t length))
{
	struct fold fresh = {.profile = profile};

	int r = fill(&fresh, root, clean);
	if (r < 0) {
		fold_fini(&fresh);
		return r;
	}
	*fold = fresh;
	return 0;
}

void fold_fini(struct fold *fold)
{
	profile_fini(&fold->names);
	free(fold->labels);
	free(fold->location_labels);
	free(fold->thread_labels);
	free(fold->samples);
	memset(fold, 0, sizeof(*fold));
}
