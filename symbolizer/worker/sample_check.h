/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a sample record (struct bh_sample and its frames) before it is used. */
#ifndef SYMBOLIZER_WORKER_SAMPLE_CHECK_H
#define SYMBOLIZER_WORKER_SAMPLE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "records/records.h"
#include "symbolizer/worker/modules.h"

/* Returns whether the counts and the reason in the header fit the `length` bytes of the record, and
 * the managed frames among its words end with the last word. `record` is aligned to 8 bytes. */
bool sample_is_valid(const void *record, size_t length);

/* Returns whether the record refers to a stack that was sent before, instead of having frames. */
static inline bool sample_is_reference(const struct bh_sample *header)
{
	return header->stack_id && !header->user_count && !header->kernel_count;
}

/* Returns the id of the goroutine that the sample was taken in. Returns 0 if it has none, or one
 * that no program reaches. */
static inline uint64_t sample_goroutine(const struct bh_sample *header, const uint64_t *frames)
{
	const uint64_t id = header->flags & BH_SAMPLE_GOROUTINE
				? frames[(size_t)header->user_count + header->kernel_count]
				: 0;

	return id <= RECORD_GOROUTINE_MAX ? id : 0;
}

/* Returns the highest id of a module that the frames name and that was not announced, if it is
 * above `after`. Returns 0 if there is none. */
uint32_t sample_missing_module(const struct modules *modules, const struct bh_sample *header,
			       const uint64_t *frames, uint32_t after);

#endif
