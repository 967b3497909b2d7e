/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/result.h"

#include <errno.h>
#include <stdio.h>

#include "exporter/exporter.h"
#include "exporter/limits.h"
#include "exporter/model/top_functions.h"
#include "exporter/model/top_processes.h"
#include "exporter/model/unnamed_modules.h"

enum {
	/* Lengths of the lists in the summary: what fits on a screen. */
	RESULT_TOP_FUNCTIONS = 10,
	RESULT_TOP_PROCESSES = 5,
	RESULT_UNNAMED_MODULES = 3
};

static int result_write_output(struct exporter *exporter, uint32_t index)
{
	const struct sink *sink = sink_find(exporter->config.formats[index]);
	FILE *out = sink ? fdopen(exporter->outputs[index], "w") : NULL;
	char buffer[LIMIT_STREAM_BYTES];

	if (!out)
		return sink ? -errno : -EINVAL;
	setvbuf(out, buffer, _IOFBF, sizeof(buffer));
	int r = sink->write(&exporter->aggregate.profile, &exporter->sink_options, out);
	if (fclose(out) != 0 && !r)
		r = -errno;
	return r;
}

void result_write_outputs(struct exporter *exporter)
{
	for (uint32_t i = 0; i < exporter->config.output_count; i++) {
		int r = result_write_output(exporter, i);

		if (!r) {
			exporter->outputs_written++;
		} else if (!exporter->output_failed) {
			exporter->output_failed = (uint32_t)-r;
			exporter->failed_index = i;
		}
	}
}

static void result_send_top_functions(struct exporter *exporter)
{
	struct msg_top_function top[RESULT_TOP_FUNCTIONS];
	unsigned int count =
	    top_functions_find(&exporter->aggregate.profile, top, RESULT_TOP_FUNCTIONS);

	for (unsigned int i = 0; i < count; i++)
		peer_send(&exporter->role.peers[ROLE_CONTROL], MESSAGE_TOP_FUNCTION, &top[i],
			  sizeof(top[i]), NULL, 0);
}

static void result_send_top_processes(struct exporter *exporter)
{
	struct msg_top_process top[RESULT_TOP_PROCESSES];
	unsigned int count =
	    top_processes_find(&exporter->aggregate.profile, exporter->sink_options.group_by, top,
			       RESULT_TOP_PROCESSES);

	for (unsigned int i = 0; i < count; i++)
		peer_send(&exporter->role.peers[ROLE_CONTROL], MESSAGE_TOP_PROCESS, &top[i],
			  sizeof(top[i]), NULL, 0);
}

static void result_send_unnamed_modules(struct exporter *exporter)
{
	struct msg_unnamed_module top[RESULT_UNNAMED_MODULES];
	unsigned int count =
	    unnamed_modules_find(&exporter->aggregate.profile, top, RESULT_UNNAMED_MODULES);

	for (unsigned int i = 0; i < count; i++)
		peer_send(&exporter->role.peers[ROLE_CONTROL], MESSAGE_UNNAMED_MODULE, &top[i],
			  sizeof(top[i]), NULL, 0);
}

void result_send_summary(struct exporter *exporter)
{
	result_send_top_processes(exporter);
	result_send_top_functions(exporter);
	result_send_unnamed_modules(exporter);
}
