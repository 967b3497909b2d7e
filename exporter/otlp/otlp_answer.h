/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the answers of a backend: ExportProfilesServiceResponse, and google.rpc.Status with its
 * RetryInfo. The functions are pure, and the bytes may be hostile. */
#ifndef EXPORTER_OTLP_OTLP_ANSWER_H
#define EXPORTER_OTLP_OTLP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct otlp_answer {
	bool partial; /* partial_success is not empty: it has rejected profiles, or a message */
	uint64_t rejected_profiles;
	const uint8_t *message; /* inside the answer; NULL: there is none */
	size_t message_length;
};

/* Parses an ExportProfilesServiceResponse. Returns 0, or -EBADMSG if it is malformed. */
int otlp_answer_read(const uint8_t *data, size_t length, struct otlp_answer *answer);

/* Returns the longest retry_delay of the google.rpc.RetryInfo messages among the details of a
 * google.rpc.Status, in nanoseconds. A negative delay counts as 0, and one above INT64_MAX as
 * INT64_MAX. Returns -1 if there is none or the message is malformed. */
int64_t otlp_status_retry_delay_ns(const uint8_t *data, size_t length);

/* Decompresses an answer (gzip or zlib) of at most `bytes_max` bytes into memory that the caller
 * frees; it is never NULL after success. Returns 0, -EFBIG if it is longer, -EBADMSG if it is
 * damaged, or -ENOMEM. */
int otlp_answer_inflate(const uint8_t *data, size_t length, size_t bytes_max, uint8_t **out,
			size_t *out_length);

/* Copies `text`, and escapes everything that is not printable ASCII. A text that does not fit into
 * `size` is cut and ends with "...". Returns `out`. */
const char *otlp_answer_print(const uint8_t *text, size_t length, char *out, size_t size);

#endif
