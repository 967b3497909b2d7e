/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of .otlp files. A file that is accepted must give a valid profile: its sum is that of
 * its samples, and it can be written and read again with the same sum, as a file and as requests.
 */
#include <errno.h>
#include <stdio.h>

#include "exporter/otlp/otlp_encode.h"
#include "exporter/otlp/otlp_read.h"
#include "exporter/sinks/sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct profile *profile)
{
	struct profile again;
	char *encoded = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&encoded, &length);

	if (!out || sink_otlp_write(profile, &(struct sink_options){0}, out) || fclose(out))
		abort();
	if (profile_init(&again, SIZE_MAX))
		abort();
	if (otlp_read((const uint8_t *)encoded, length, &again))
		abort();
	if (again.sample_count != profile->sample_count)
		abort();
	profile_fini(&again);
	free(encoded);
}

struct requests {
	struct profile again;
	size_t bytes_max;
	uint64_t samples;
	bool ended;
};

static int read_request(void *context, const struct otlp_request *request)
{
	struct requests *requests = context;

	if (requests->ended || request->length > requests->bytes_max || !request->samples)
		abort();
	if (otlp_read(request->data, request->length, &requests->again))
		abort();
	requests->samples += request->samples;
	requests->ended = request->last;
	return 0;
}

static void check_requests(const struct profile *profile, size_t bytes_max)
{
	static const struct otlp_resource_attribute attribute = {"service.name", "all"};
	const struct otlp_encode_options options = {&attribute, 1, bytes_max};
	struct requests requests = {.bytes_max = bytes_max};
	uint64_t too_large;

	if (profile_init(&requests.again, SIZE_MAX))
		abort();
	if (otlp_encode(profile, &options, read_request, &requests, &too_large))
		abort();
	if (requests.samples + too_large != profile->sample_count ||
	    requests.again.sample_count != requests.samples ||
	    requests.ended != (requests.samples > 0))
		abort();
	profile_fini(&requests.again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile profile;
	uint64_t sum = 0;

	if (profile_init(&profile, 16 << 20))
		abort();
	int r = otlp_read(data, size, &profile);
	for (uint32_t i = 0; i < profile.samples_count; i++)
		sum += profile.samples[i].count;
	if (sum != profile.sample_count || (r == -EBADMSG && sum))
		abort();
	if (r == 0) {
		check_again(&profile);
		check_requests(&profile, SIZE_MAX);
		check_requests(&profile, 300 + size % 1024);
	}
	profile_fini(&profile);
	return 0;
}
