/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/late_samples.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/worker/limits.h"

struct late_sample {
	struct late_sample *next;
	size_t length;
	uint64_t record[];
};

bool late_samples_add(struct late_samples *samples, const void *record, size_t length)
{
	const size_t bytes = sizeof(struct late_sample) + length;

	if (samples->bytes + bytes > LIMIT_LATE_SAMPLES_BYTES)
		return false;
	struct late_sample *sample = malloc(bytes);
	if (!sample)
		return false;
	sample->next = NULL;
	sample->length = length;
	memcpy(sample->record, record, length);
	if (!samples->first)
		samples->end = &samples->first;
	*samples->end = sample;
	samples->end = &sample->next;
	samples->bytes += bytes;
	samples->count++;
	return true;
}

const void *late_samples_first(const struct late_samples *samples)
{
	return samples->first ? samples->first->record : NULL;
}

void late_samples_remove_first(struct late_samples *samples)
{
	struct late_sample *first = samples->first;

	samples->first = first->next;
	samples->bytes -= sizeof(*first) + first->length;
	samples->count--;
	free(first);
}

void late_samples_free(struct late_samples *samples)
{
	while (samples->first)
		late_samples_remove_first(samples);
}
