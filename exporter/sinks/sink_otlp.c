/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/otlp_encode.h"
#include "exporter/sinks/sink.h"
#include "exporter/sinks/sink_stream.h"

static void put_file(void *context, const uint8_t *data, size_t length)
{
	fwrite(data, 1, length, context);
}

int sink_otlp_write(const struct profile *profile, const struct sink_options *options, FILE *out)
{
	(void)options;
	int r = otlp_encode_file(profile, put_file, out);

	return r < 0 ? r : sink_stream_result(out);
}
