/* SPDX-License-Identifier: Apache-2.0 */
/* The selection of the few largest counts, for the lists of a recording's summary. */
#ifndef EXPORTER_MODEL_LARGEST_H
#define EXPORTER_MODEL_LARGEST_H

#include <stdint.h>

/* Writes the indexes of the largest of `count` values into `indexes`, the largest first, at most
 * `room` of them. Equal values keep their order, and a value of 0 is never selected. Returns how
 * many were written. */
unsigned int largest_find(const uint64_t *values, uint32_t count, uint32_t *indexes,
			  unsigned int room);

#endif
