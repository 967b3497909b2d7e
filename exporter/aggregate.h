/* SPDX-License-Identifier: Apache-2.0 */
/* From the worker's batches to a profile: its numbers become the profile's. */
#ifndef EXPORTER_AGGREGATE_H
#define EXPORTER_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "exporter/profile.h"
#include "ipc/messages.h"

/* By the worker's number: the profile's. 0 is "unknown", which a worker that keeps its word never
 * refers to. */
struct aggregate_numbers {
	uint32_t *numbers;
	size_t capacity;
};

struct aggregate {
	struct profile profile;
	struct aggregate_numbers modules, functions, frames, stacks, processes, threads;
	struct aggregate_numbers reasons; /* of stacks */
	uint32_t kinds[256];		  /* frame kind: string */
	uint64_t exported;
	uint64_t frames_total, frames_named;
	uint64_t incomplete[16]; /* samples, by enum bh_reason */
	struct msg_losses losses;
};

int aggregate_init(struct aggregate *aggregate);

/* Take in a batch. Samples that cannot be had are counted in `losses`; a batch that is malformed as
 * a whole is -EBADMSG. */
int aggregate_batch(struct aggregate *aggregate, const uint8_t *data, size_t length);

#endif
