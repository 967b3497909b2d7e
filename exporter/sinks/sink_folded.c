/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes folded stacks, as flame graph scripts read them: one line "root;outermost;...;leaf count"
 * for each distinct stack. The root is the process's name, or what the options ask for. Lines are
 * sorted frame by frame, so that diff(1) can compare two profiles. Example:
 *
 *   cc1;main;do_compile;ggc_alloc 12
 *   cc1;main;do_compile;read_[k] 3
 */
#include <errno.h>
#include <inttypes.h>

#include "common/cleanup.h"
#include "exporter/model/folded_stacks.h"
#include "exporter/sinks/sink.h"
#include "exporter/sinks/sink_stream.h"

/* Frames are separated by ';' and stacks by line ends, so labels must contain neither. Strings of a
 * profile have no line ends. */
static void clean_label(char *label, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (label[i] == ';')
			label[i] = ':';
	}
}

static void write_line(const struct folded_stacks *folded, uint32_t sample, uint64_t count,
		       FILE *out)
{
	uint32_t depth = folded_stacks_depth(folded, sample);

	fputs(folded->labels[folded_stacks_root(folded, sample)], out);
	for (uint32_t i = 0; i < depth; i++) {
		putc(';', out);
		fputs(folded->labels[folded_stacks_frame(folded, sample, i)], out);
	}
	fprintf(out, " %" PRIu64 "\n", count);
}

int sink_folded_write(const struct profile *profile, const struct sink_options *options, FILE *out)
{
	const struct folded_options folded_options = {
	    .group_by = options->group_by, .lines = options->lines, .clean = clean_label};
	_cleanup_(folded_stacks_fini) struct folded_stacks folded = {0};

	int r = folded_stacks_init(&folded, profile, &folded_options);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < profile->samples_count && !ferror(out);) {
		uint32_t first = folded.samples[i];
		uint64_t count = 0;
		do
			count += profile->samples[folded.samples[i++]].count;
		while (i < profile->samples_count &&
		       !folded_stacks_compare(&folded, first, folded.samples[i]));
		write_line(&folded, first, count, out);
	}
	return sink_stream_result(out);
}
