/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as OTLP messages (ExportProfilesServiceRequest, which is ProfilesData): the file of a
 * recording, and the requests to a backend. The same encoder; requests are split by size, and leave
 * out what only a recording that is read again has a use for.
 */
#ifndef EXPORTER_OTLP_OTLP_ENCODE_H
#define EXPORTER_OTLP_OTLP_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/model/profile.h"
#include "exporter/otlp/otlp_resource.h"

struct otlp_encode_options {
	/* Attributes that every resource gets: see struct otlp_resource_options. */
	const struct otlp_resource_attribute *attributes;
	size_t attribute_count;
	size_t request_bytes_max; /* INT_MAX at the most, as protobuf has it */
};

struct otlp_request {
	const uint8_t *data; /* the encoder's, during the call */
	size_t length;
	uint64_t samples; /* sum of their counts */
	bool last;
};

/* Encode all samples of the profile, in as few requests of at most request_bytes_max as it takes:
 * each is filled in the order of the processes, and has a dictionary of its own that holds what it
 * needs and nothing else. `emit` is called for each and returns 0 or a negative errno, which ends
 * it. *too_large: samples that no request of that size can hold, left out. The same profile gives
 * the same requests. Nothing is emitted if there are no samples. 0 or negative errno. */
int otlp_encode(const struct profile *profile, const struct otlp_encode_options *options,
		int (*emit)(void *context, const struct otlp_request *request), void *context,
		uint64_t *too_large);

/* The file of a recording: one message, passed on piece by piece; without samples it still says
 * time and period. Additional attributes of its resources tell processes of one pid apart and keep
 * the kernel's name of a process. 0; -EFBIG, nothing was put: over 2 GiB; -ENOMEM. */
int otlp_encode_file(const struct profile *profile,
		     void (*put)(void *context, const uint8_t *data, size_t length), void *context);

#endif
