/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An .otlp file from anyone. What is read must be a sound profile: its sum is that of its samples,
 * and it can be written and read again with the same sum.
 */
#include <errno.h>
#include <stdio.h>

#include "exporter/otlp_read.h"
#include "exporter/sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct profile *profile)
{
	struct profile again;
	char *encoded = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&encoded, &length);

	if (!out || sink_otlp_write(profile, out) || fclose(out))
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
	if (r == 0)
		check_again(&profile);
	profile_fini(&profile);
	return 0;
}
