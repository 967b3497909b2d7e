/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a profile as OTLP: as the file of a recording (ProfilesData), or as requests to a backend
 * (ExportProfilesServiceRequest, which has the same fields). Requests have a maximum size, and
 * leave out the attributes that only a recording needs.
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
	size_t request_bytes_max; /* at most INT_MAX, the maximum of protobuf */
};

struct otlp_request {
	const uint8_t *data; /* belongs to the encoder, and is valid during the call */
	size_t length;
	uint64_t samples; /* how many samples the request contains */
	bool last;	  /* no other request follows */
};

/* Encodes the samples of the profile, in the order of their processes, in requests of at most
 * request_bytes_max bytes. A request is as full as possible, and has a dictionary of its own that
 * contains exactly what it refers to. `emit` is called for each request, and returns 0 or a
 * negative errno, which ends the encoding. *too_large is the number of samples that fit no request
 * and are left out. The same profile gives the same requests, and a profile without samples gives
 * none. Returns 0 or a negative errno. */
int otlp_encode(const struct profile *profile, const struct otlp_encode_options *options,
		int (*emit)(void *context, const struct otlp_request *request), void *context,
		uint64_t *too_large);

/* Encodes the file of a recording: one message, passed to `put` in pieces. Without samples it still
 * contains the time and the period. Resources have two more attributes than in a request: what
 * distinguishes processes that had the same pid, and the kernel's name of the process. Returns 0;
 * -EFBIG if the message exceeds 2 GiB, and nothing was put; or -ENOMEM. */
int otlp_encode_file(const struct profile *profile,
		     void (*put)(void *context, const uint8_t *data, size_t length), void *context);

#endif
