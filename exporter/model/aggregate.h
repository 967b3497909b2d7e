/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. An aggregate builds a profile from the worker's batches. The worker describes
 * each module, function, frame, set of labels, stack, process and thread once, with an id that it
 * has assigned, and then refers to it by this id. The profile has ids of its own, because it stores
 * equal entries once. For each kind of entry one array maps the worker's id to the profile's id.
 *
 * Example: the worker sends function 3 "main", frame 5 (function 3), stack 2 (frame 5), thread 1,
 * and a sample of stack 2 in thread 1. The profile already has "main" as function 9, so
 * functions[3] = 9. The frame becomes location 12, frames[5] = 12, and so on. The sample is counted
 * for the profile's stack stacks[2] - 1: for stacks the stored value is one larger, since 0 means
 * "unknown" and the profile's stack 0 is the empty stack.
 *
 * When a batch says that the worker assigns its ids from 1 on again (on_reset), the arrays are
 * cleared; the profile stays.
 *
 * Somebody may set the clock of the host at any moment. While samples are collected, times are
 * therefore those of CLOCK_MONOTONIC. At the end aggregate_set_real_time() converts all of them at
 * once, by the clock as it is then, so that no interval is stretched, shrunk or reordered.
 */
#ifndef EXPORTER_MODEL_AGGREGATE_H
#define EXPORTER_MODEL_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "exporter/model/profile.h"
#include "ipc/messages.h"

/* The profile's id by the worker's id. 0 means that the worker's id is unknown; a correct worker
 * never refers to such an id. */
struct aggregate_ids {
	uint32_t *ids;
	size_t capacity;
};

struct aggregate {
	struct profile profile;
	size_t profile_bytes_max;
	struct aggregate_ids modules, functions, frames, label_sets, stacks, processes, threads;
	struct aggregate_ids reasons; /* by stack: enum incomplete_reason */
	uint32_t kinds[256];	      /* by frame kind: the string with its name */
	/* Samples that were not lost. */
	uint64_t exported;
	/* Frames that were defined, and those of them that have a symbol. */
	uint64_t frames_total, frames_named;
	uint64_t incomplete[16]; /* samples with a cut stack, by enum incomplete_reason */
	/* Samples without room: LOSS_PROFILE_FULL and LOSS_EXPORTER_MEMORY. */
	struct msg_losses losses;
	/* The loss reason of samples whose definitions are missing: that of the last definition
	 * that failed. */
	enum loss_reason missing;
	bool detailed;	       /* keep the CPU and time of each sample, which OTLP contains */
	uint64_t now_ns;       /* for `detailed`: CLOCK_MONOTONIC when the batch came */
	bool definitions_only; /* samples are counted as exported, but not added to the profile */
};

/* Initialises an aggregate with an empty profile of at most this many bytes. Returns 0 or
 * -ENOMEM. */
int aggregate_init(struct aggregate *aggregate, size_t profile_bytes_max);

/* Frees the profile and the tables of ids. */
void aggregate_fini(struct aggregate *aggregate);

/* Empties the profile and drops all ids; the counters stay. Returns 0 or -ENOMEM. */
int aggregate_reset(struct aggregate *aggregate);

/* Adds a batch of the worker. Samples for which there is no room are counted in `losses`. Returns
 * 0, or -EBADMSG if the batch is malformed; then nothing was added. */
int aggregate_batch(struct aggregate *aggregate, const uint8_t *data, size_t length);

/* Dates the profile: its samples were collected from `started_ns` (CLOCK_MONOTONIC) on, for
 * `duration_ns`. From now on its start and the times of its samples are Unix times. May be called
 * once for the samples that the profile has; those added later are not dated. */
void aggregate_set_real_time(struct aggregate *aggregate, uint64_t started_ns,
			     uint64_t duration_ns);

/* Returns how many samples the batches contained so far: those that were exported and those that
 * were lost. */
uint64_t aggregate_samples(const struct aggregate *aggregate);

#endif
