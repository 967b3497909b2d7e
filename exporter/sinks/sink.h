/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks: each writes one whole profile to a stream in one format. The table of them is in sink.c.
 */
#ifndef EXPORTER_SINKS_SINK_H
#define EXPORTER_SINKS_SINK_H

#include <stdio.h>

#include "exporter/model/profile.h"

struct sink {
	const char *name;
	/* 0, or a negative errno (that of the stream for write errors). Does not close the stream.
	 */
	int (*write)(const struct profile *profile, FILE *out);
};

int sink_html_write(const struct profile *profile, FILE *out);
int sink_folded_write(const struct profile *profile, FILE *out);
int sink_pprof_write(const struct profile *profile, FILE *out);
int sink_speedscope_write(const struct profile *profile, FILE *out);
int sink_otlp_write(const struct profile *profile, FILE *out);
int sink_tree_write(const struct profile *profile, FILE *out);

/* By format name ("html", "folded", "pprof", "speedscope", "otlp", "tree"), or NULL. */
const struct sink *sink_find(const char *name);

#endif
