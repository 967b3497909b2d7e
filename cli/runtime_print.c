/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runtime_print.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/runtimes.h"

static bool has_faults(const struct msg_runtime *f)
{
	return f->refused || f->unnamed || f->no_room;
}

/* Prints "12 of 34120 frames have no name, 1 refused (see the log), 3 times no room". */
static void print_faults(const struct msg_runtime *f, FILE *out)
{
	if (f->unnamed)
		fprintf(out, "%" PRIu64 " of %" PRIu64 " frames have no name", f->unnamed,
			f->named + f->unnamed);
	if (f->refused)
		fprintf(out, "%s%" PRIu64 " refused (see the log)", f->unnamed ? ", " : "",
			f->refused);
	if (f->no_room)
		fprintf(out, "%s%" PRIu64 " times no room", f->unnamed || f->refused ? ", " : "",
			f->no_room);
}

void runtime_print_faults(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out)
{
	for (int i = 1; i < RUNTIME_ID_COUNT; i++) {
		if (!has_faults(&stats[i]))
			continue;
		fprintf(out, "%s: ", runtime_titles[i]);
		print_faults(&stats[i], out);
		fputc('\n', out);
	}
}

void runtime_print_status(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out)
{
	const char *before = "runtimes";

	for (int i = 1; i < RUNTIME_ID_COUNT; i++) {
		const struct msg_runtime *f = &stats[i];

		if (!f->attached && !f->named && !has_faults(f))
			continue;
		fprintf(out, "%-9s %s: %" PRIu64 " processes", before, runtime_titles[i],
			f->attached);
		if (has_faults(f))
			fputs(", ", out);
		print_faults(f, out);
		fputc('\n', out);
		before = "";
	}
}

void runtime_print_json(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out)
{
	fputs("  \"runtimes\": {", out);
	for (int i = 1; i < RUNTIME_ID_COUNT; i++)
		fprintf(out,
			"%s\"%s\": {\"attached\": %" PRIu64 ", \"refused\": %" PRIu64
			", \"named\": %" PRIu64 ", \"unnamed\": %" PRIu64 ", \"no_room\": %" PRIu64
			"}",
			i > 1 ? ", " : "", runtime_names[i], stats[i].attached, stats[i].refused,
			stats[i].named, stats[i].unnamed, stats[i].no_room);
	fputs("},\n", out);
}

void runtime_print_metrics(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out)
{
	static const struct {
		const char *name, *type, *help;
		size_t offset;
	} metrics[] = {
	    {"processes", "gauge", "Processes of this runtime whose frames get names.",
	     offsetof(struct msg_runtime, attached)},
	    {"refused_total", "counter", "Files and processes whose runtime is not supported.",
	     offsetof(struct msg_runtime, refused)},
	    {"frames_named_total", "counter", "Distinct frames with a name.",
	     offsetof(struct msg_runtime, named)},
	    {"frames_unnamed_total", "counter", "Distinct frames without a name.",
	     offsetof(struct msg_runtime, unnamed)},
	    {"no_room_total", "counter",
	     "How often a process found no room in the table, or left it for another one.",
	     offsetof(struct msg_runtime, no_room)},
	};

	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
		fprintf(out, "# HELP bulkhead_runtime_%s %s\n# TYPE bulkhead_runtime_%s %s\n",
			metrics[m].name, metrics[m].help, metrics[m].name, metrics[m].type);
		for (int i = 1; i < RUNTIME_ID_COUNT; i++)
			fprintf(out, "bulkhead_runtime_%s{runtime=\"%s\"} %" PRIu64 "\n",
				metrics[m].name, runtime_names[i],
				*(const uint64_t *)((const char *)&stats[i] + metrics[m].offset));
	}
}
