/* SPDX-License-Identifier: Apache-2.0 */
/* From a record of the ring to a sample in the batch. */
#ifndef SYMBOLIZER_WORKER_SAMPLES_H
#define SYMBOLIZER_WORKER_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"

struct worker;

/* Adds a sample to the batch, with all definitions that the exporter lacks. The record must have
 * passed sample_is_valid(). May send the batch before. A sample that cannot be added is counted as
 * lost. Returns false if naming its frames pauses (frames.h): then nothing was added but
 * definitions, and the sample has to be added again. */
bool samples_add(struct worker *worker, const struct bh_sample *header, const uint64_t *frames);

/* Stores how many samples are in batches or wait for names in this worker, for the next one. Called
 * after a sample has been taken from the ring or from the manager. */
void samples_set_position(struct worker *worker);

#endif
