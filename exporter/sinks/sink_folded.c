/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `comm;outermost;...;leaf count`, a line a stack: what flame graph scripts read. Lines are merged
 * and sorted frame by frame, so that two profiles can be compared with diff.
 */
#include <errno.h>
#include <inttypes.h>

#include "common/cleanup.h"
#include "exporter/model/folded_stacks.h"
#include "exporter/sinks/sink.h"
#include "exporter/model/text.h"

/* `;` separates frames, a line ends a stack, and other control bytes have no business in a line. */
static void clean_label(char *label, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		uint8_t c = (uint8_t)label[i];
		if (c == ';')
			label[i] = ':';
		else if (c < 0x20 || c == 0x7f)
			label[i] = '?';
	}
}

static void write_line(const struct fold *fold, uint32_t sample, uint64_t count, FILE *out)
{
	uint32_t depth = fold_depth(fold, sample);

	fputs(fold->labels[fold_root(fold, sample)], out);
	for (uint32_t i = 0; i < depth; i++) {
		putc(';', out);
		fputs(fold->labels[fold_frame(fold, sample, i)], out);
	}
	fprintf(out, " %" PRIu64 "\n", count);
}

int sink_folded_write(const struct profile *profile, FILE *out)
{
	_cleanup_(fold_fini) struct fold fold = {0};

	int r = fold_init(&fold, profile, FOLD_THREAD_NAME, clean_label);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < profile->samples_count && !ferror(out);) {
		uint32_t first = fold.samples[i];
		uint64_t count = 0;
		do
			count += profile->samples[fold.samples[i++]].count;
		while (i < profile->samples_count && !fold_compare(&fold, first, fold.samples[i]));
		write_line(&fold, first, count, out);
	}
	return text_stream_result(out);
}
