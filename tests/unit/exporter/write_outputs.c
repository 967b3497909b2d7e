/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_outputs DIRECTORY SEED SAMPLES NASTY: one random profile as DIRECTORY/out.FORMAT, for
 * check_outputs.py. Prints the samples, the period, and the memory of the profile and of the
 * process before and after each sink.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/cleanup.h"
#include "exporter/sink.h"
#include "random_profile.h"

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
	int r = sink_find(format)->write(profile, out);
	fprintf(stderr, "%s: %d, peak rss +%ld KiB\n", format, r, peak_kib() - before);
	return r;
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
	    .nasty = argv[4][0] == '1',
	};
	if (profile_init(&profile, SIZE_MAX) ||
	    random_profile(&profile, strtoull(argv[2], NULL, 10), &size))
		return 1;
	printf("%" PRIu64 " %" PRIu64 "\n", profile.sample_count, profile.period_ns);
	fprintf(stderr, "profile: %zu KiB, rss %ld KiB\n", profile.bytes >> 10, peak_kib());
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		/* With a fifth argument only that format, so that peaks can be told apart. */
		if (argc > 5 && strcmp(argv[5], formats[i]))
			continue;
		if (write_one(&profile, argv[1], formats[i]))
			return 1;
	}
	profile_fini(&profile);
	return 0;
}
