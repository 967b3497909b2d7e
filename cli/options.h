/* SPDX-License-Identifier: Apache-2.0 */
/* The command-line options of `bulkhead record`. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/debug_directories.h"
#include "common/group_by.h"
#include "common/limits.h"
#include "ipc/messages.h"

enum {
	OPTIONS_CGROUP_PATH_BYTES = 512,
	/* Not 100: samples would coincide with timers of 100 Hz. */
	OPTIONS_FREQUENCY_DEFAULT_HZ = 99,
};

struct output {
	const char *path;   /* NULL until outputs_open() has chosen the default name */
	const char *format; /* name of a sink */
	int fd;
	bool created; /* it did not exist before: removed again if the recording does not begin */
};

struct record_options {
	unsigned int frequency_hz;
	uint64_t duration_ns; /* 0: until Ctrl-C, or until the command ends */
	uint32_t pids[MSG_FILTER_TARGETS_MAX];
	unsigned int pid_count;
	uint32_t tid;
	const char *cgroup, *comm;
	uint64_t cgroup_id; /* this and the next two are found by preflight_check() */
	uint32_t cgroup_level;
	char cgroup_path[OPTIONS_CGROUP_PATH_BYTES]; /* absolute; empty if it is longer */
	bool user_only, kernel_only;
	uint32_t runtimes; /* set of 1 << enum runtime_id: those whose frames get names */
	enum group_by group_by;
	bool lines;	      /* show the line of each frame */
	bool without_inlined; /* show no inlined functions */
	bool strict_memory;
	const char *debug_directories[DEBUG_DIRECTORIES_MORE_MAX];
	unsigned int debug_directory_count;
	struct output outputs[LIMIT_OUTPUTS];
	unsigned int output_count;
	const char *stats_path;
	int stats_fd;
	double max_loss; /* share of the samples from 0 to 1; negative: no limit */
	char **command;	 /* after --; NULL: none */
};

/* Parses the arguments of `bulkhead record`. Without -o there is one output whose path is NULL:
 * outputs_open() names it. Returns 0; -1 after it printed --help; or STATUS_USAGE after a message.
 * `options` points into `argv`. */
int options_parse_record(int argc, char **argv, struct record_options *options);

/* Parses the value of -F. Returns false and leaves `frequency_hz` as it is if it is wrong. */
bool options_parse_frequency(const char *text, unsigned int *frequency_hz);

#endif
