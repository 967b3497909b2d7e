/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_outputs DIRECTORY SEED SAMPLES KIND: one random profile as DIRECTORY/out.FORMAT, and as
 * requests DIRECTORY/request.NUMBER, for check_outputs.py. KIND: 1 with nasty names, 2 with times,
 * 3 with both. Prints the samples, the period, and the memory of the profile and of the process
 * before and after each sink.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/cleanup.h"
#include "exporter/otlp/otlp_encode.h"
#include "exporter/sinks/sink.h"
#include "random_profile.h"

enum {
	REQUEST_BYTES_MAX = 50000
};

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static int write_one(const struct profile *profile, const char *directory, const char *format)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/out.%s", directory, format);
	_cleanup_fclose_ FILE *out = fopen(path, "w");
	if (!out)
		return -errno;
	long before = peak_kib();
	int r = sink_find(format)->write(profile, &(struct sink_options){.group_by = GROUP_BY_THREAD}, out);
	fprintf(stderr, "%s: %d, peak rss +%ld KiB\n", format, r, peak_kib() - before);
	return r;
}

struct requests {
	const char *directory;
	unsigned int count;
};

static int write_request(void *context, const struct otlp_request *request)
{
	struct requests *requests = context;
	char path[4096];

	snprintf(path, sizeof(path), "%s/request.%u", requests->directory, requests->count++);
	_cleanup_fclose_ FILE *out = fopen(path, "w");
	if (!out || fwrite(request->data, 1, request->length, out) != request->length)
		return -EIO;
	return 0;
}

static int write_requests(const struct profile *profile, const char *directory)
{
	static const struct otlp_resource_attribute attributes[] = {{"host.name", "host"},
								    {"service.name", "all"}};
	const struct otlp_encode_options options = {attributes, 2, REQUEST_BYTES_MAX};
	struct requests requests = {.directory = directory};
	uint64_t too_large;

	int r = otlp_encode(profile, &options, write_request, &requests, &too_large);
	return r ? r : too_large ? -EFBIG : 0;
}

int main(int argc, char **argv)
{
	static const char *const formats[] = {"folded", "speedscope", "otlp", "pprof", "tree"};
	struct profile profile;

	if (argc < 5)
		return 2;
	uint32_t samples = (uint32_t)strtoul(argv[3], NULL, 10);
	const struct random_size size = {
	    .names = 20 + samples / 20,
	    .locations = 100 + samples / 5,
	    .threads = 40,
	    .samples = samples,
	    .nasty = strtoul(argv[4], NULL, 10) & 1,
	    .timed = strtoul(argv[4], NULL, 10) & 2,
	};
	if (profile_init(&profile, SIZE_MAX) ||
	    random_profile(&profile, strtoull(argv[2], NULL, 10), &size))
		return 1;
	printf("%" PRIu64 " %" PRIu64 "\n", profile.sample_count, profile.period_ns);
	fprintf(stderr, "profile: %zu KiB, rss %ld KiB\n", profile.bytes >> 10, peak_kib());
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		/* With a fifth argument only that format is written, so that its peak can be measured. */
		if (argc > 5 && strcmp(argv[5], formats[i]))
			continue;
		if (write_one(&profile, argv[1], formats[i]))
			return 1;
	}
	if (argc == 5 && write_requests(&profile, argv[1]))
		return 1;
	profile_fini(&profile);
	return 0;
}
