/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sinks/sink.h"

#include <string.h>

static const struct sink sinks[] = {
    {"html", sink_html_write},	 {"folded", sink_folded_write},
    {"pprof", sink_pprof_write}, {"speedscope", sink_speedscope_write},
    {"otlp", sink_otlp_write},	 {"tree", sink_tree_write},
};

const struct sink *sink_find(const char *name)
{
	for (size_t i = 0; i < sizeof(sinks) / sizeof(sinks[0]); i++) {
		if (!strcmp(sinks[i].name, name))
			return &sinks[i];
	}
	return NULL;
}
