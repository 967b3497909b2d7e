/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a backend answers, from its bytes: ExportProfilesServiceResponse, and google.rpc.Status with
 * its RetryInfo. Pure; the bytes may be hostile.
 */
#ifndef EXPORTER_OTLP_OTLP_ANSWER_H
#define EXPORTER_OTLP_OTLP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct otlp_answer {
	bool partial; /* partial_success says something: rejected profiles, or a message */
	uint64_t rejected_profiles;
	const uint8_t *message; /* within the answer; NULL: none */
	size_t message_length;
};

/* ExportProfilesServiceResponse. 0, or -EBADMSG: no such message. */
int otlp_answer_read(const uint8_t *data, size_t length, struct otlp_answer *answer);

/* The longest retry_delay of a google.rpc.RetryInfo among the details of a google.rpc.Status; a
 * negative one counts as zero, one beyond INT64_MAX as that. -1: there is none, or this is no such
 * message. */
int64_t otlp_status_retry_delay_ns(const uint8_t *data, size_t length);

/* What a compressed answer (gzip or zlib) unpacks to, up to `bytes_max` of it, whatever it says. In
 * memory that the caller frees, never NULL after success. 0; -EFBIG: there is more; -EBADMSG: it
 * is damaged; -ENOMEM. */
int otlp_answer_inflate(const uint8_t *data, size_t length, size_t bytes_max, uint8_t **out,
			size_t *out_length);

/* `text` with what is not printable ASCII escaped, cut to `size`, an end with "..." if so; returns
 * `out`. */
const char *otlp_answer_print(const uint8_t *text, size_t length, char *out, size_t size);

#endif
