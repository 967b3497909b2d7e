/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/limits.h"
#include "ipc/messages.h"

struct output {
	const char *path;
	const char *format; /* name of a sink */
	int fd;
	bool created; /* by us: removed again if the recording does not begin */
};

struct record_options {
	unsigned int frequency_hz;
	uint64_t duration_ns; /* 0: until interrupted, or the command ends */
	uint32_t pids[MSG_FILTER_TARGETS_MAX];
	unsigned int pid_count;
	uint32_t tid;
	const char *cgroup, *comm;
	uint64_t cgroup_id; /* found by preflight_check */
	uint32_t cgroup_level;
	bool user_only, kernel_only;
	uint32_t runtimes; /* a set: those whose frames are wanted */
	enum group_by group_by;
	bool strict_memory;
	struct output outputs[LIMIT_OUTPUTS];
	unsigned int output_count;
	const char *stats_path;
	int stats_fd;
	double max_loss; /* share of the samples; negative: any */
	char **command;	 /* NULL: none */
};

/* 0; an exit status after a message otherwise, and -1 for --help. */
int options_parse_record(int argc, char **argv, struct record_options *options);

/* "otlp" for x.otlp, "html", "folded", "pprof", "speedscope"; NULL if the name says nothing. "-":
 * NULL. */
const char *options_format_of(const char *path);

/* Whether there is such a format (also "tree"). */
bool options_format_known(const char *format);

/* The names of enum group_by in --group-by: "name" and "pid". */
const char *options_group_by_name(enum group_by group_by);

/* Sets `group_by` and returns true if `text` is one of these names. */
bool options_parse_group_by(const char *text, enum group_by *group_by);

void options_usage(void);

#endif
