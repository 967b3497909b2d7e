/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of several sinks, for writing numbers and for the end of their stream. */
#ifndef EXPORTER_SINKS_SINK_STREAM_H
#define EXPORTER_SINKS_SINK_STREAM_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

/* Returns a * b, or `max` if the product is larger. Counts and periods of a foreign file may be
 * anything. */
static inline uint64_t sink_multiply(uint64_t a, uint64_t b, uint64_t max)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) || product > max ? max : product;
}

/* Flushes the stream. Returns 0, or a negative errno if anything that was written to it since it
 * was opened failed. */
static inline int sink_stream_result(FILE *out)
{
	errno = 0;
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}

#endif
