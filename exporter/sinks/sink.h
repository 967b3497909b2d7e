/* SPDX-License-Identifier: Apache-2.0 */
/* A sink writes a whole profile to a stream in one format. The table of all sinks is in sink.c. */
#ifndef EXPORTER_SINKS_SINK_H
#define EXPORTER_SINKS_SINK_H

#include <stdbool.h>
#include <stdio.h>

#include "common/group_by.h"
#include "exporter/model/profile.h"

struct sink_options {
	/* How html, folded and tree combine the samples of processes. The other formats keep the
	 * process of each sample and ignore this. */
	enum group_by group_by;
	/* Whether html, folded and tree show the line of each frame, and lines of one function as
	 * frames of their own. The other formats always contain the lines. */
	bool lines;
};

struct sink {
	const char *name;
	/* Writes the profile and flushes the stream, but does not close it. Returns 0 or a negative
	 * errno: -ENOMEM, or the error of the stream. */
	int (*write)(const struct profile *profile, const struct sink_options *options, FILE *out);
};

int sink_html_write(const struct profile *profile, const struct sink_options *options, FILE *out);
int sink_folded_write(const struct profile *profile, const struct sink_options *options, FILE *out);
int sink_pprof_write(const struct profile *profile, const struct sink_options *options, FILE *out);
int sink_speedscope_write(const struct profile *profile, const struct sink_options *options,
			  FILE *out);
int sink_otlp_write(const struct profile *profile, const struct sink_options *options, FILE *out);
int sink_tree_write(const struct profile *profile, const struct sink_options *options, FILE *out);

/* Returns the sink of a format ("html", "folded", "pprof", "speedscope", "otlp", "tree"), or NULL
 * if there is no such format. */
const struct sink *sink_find(const char *name);

#endif
