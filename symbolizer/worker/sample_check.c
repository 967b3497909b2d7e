/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/sample_check.h"

/* Returns the number of words after the header. */
static size_t sample_words(const struct bh_sample *header)
{
	return (size_t)header->user_count + header->kernel_count +
	       (header->flags & BH_SAMPLE_GOROUTINE ? 1 : 0);
}

bool sample_is_valid(const void *record, size_t length)
{
	const struct bh_sample *header = record;

	if (length < sizeof(*header) || (header->flags & BH_RECORD_COPY) ||
	    header->user_count > BH_USER_FRAMES_MAX ||
	    header->kernel_count > BH_KERNEL_FRAMES_MAX || header->reason >= BH_REASON_COUNT ||
	    length < sizeof(*header) + sample_words(header) * sizeof(uint64_t))
		return false;
	if (!(header->flags & BH_SAMPLE_MANAGED))
		return true;
	const uint64_t *frames = (const uint64_t *)(header + 1);
	unsigned int words = 0;
	while (words < header->user_count)
		words += bh_frame_words(frames[words]);
	return words == header->user_count;
}

/* Returns the number of words of a user frame. Only stacks with managed frames have frames of
 * several. */
static unsigned int sample_frame_words(const struct bh_sample *header, uint64_t frame)
{
	return header->flags & BH_SAMPLE_MANAGED ? bh_frame_words(frame) : 1;
}

uint32_t sample_missing_module(const struct modules *modules, const struct bh_sample *header,
			       const uint64_t *frames, uint32_t after)
{
	uint32_t missing = after;

	for (unsigned int i = 0; i < header->user_count;
	     i += sample_frame_words(header, frames[i])) {
		const uint32_t module = (uint32_t)(frames[i] >> BH_FRAME_OFFSET_BITS);

		if (!(frames[i] & BH_FRAME_RAW) && !modules_find(modules, module) &&
		    module > missing)
			missing = module;
	}
	return missing > after ? missing : 0;
}
