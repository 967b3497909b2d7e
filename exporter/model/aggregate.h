/* SPDX-License-Identifier: Apache-2.0 */
/* From the worker's batches to a profile: its numbers become the profile's. */
#ifndef EXPORTER_MODEL_AGGREGATE_H
#define EXPORTER_MODEL_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "exporter/model/profile.h"
#include "ipc/messages.h"

/* By the worker's number: the profile's. 0 is "unknown", which a worker that keeps its word never
 * refers to. */
struct aggregate_ids {
	uint32_t *numbers;
	size_t capacity;
};

struct aggregate {
	struct profile profile;
	size_t profile_bytes_max;
	struct aggregate_ids modules, functions, frames, stacks, processes, threads;
	struct aggregate_ids reasons; /* of stacks */
	uint32_t kinds[256];	      /* frame kind: string */
	uint64_t exported;
	uint64_t frames_total, frames_named;
	uint64_t incomplete[16]; /* samples, by enum incomplete_reason */
	struct msg_losses losses;
	bool detailed; /* keep CPU and time of each sample, which OTLP can tell */
	/* For `detailed`: CLOCK_MONOTONIC, and what it lacks to real time. */
	uint64_t now_ns, clock_offset_ns;
	bool definitions_only; /* samples are counted as exported, and not added to the profile */
};

/* With a profile of at most so many bytes. 0 or -ENOMEM. */
int aggregate_init(struct aggregate *aggregate, size_t profile_bytes_max);

/* An empty profile, as at the start; what was counted stays. 0 or -ENOMEM. */
int aggregate_reset(struct aggregate *aggregate);

/* Take in a batch. Samples that cannot be had are counted in `losses`; a batch that is malformed as
 * a whole is -EBADMSG. */
int aggregate_batch(struct aggregate *aggregate, const uint8_t *data, size_t length);

#endif
