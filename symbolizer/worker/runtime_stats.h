/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of language runtimes for the CLI, a log line for each runtime that was refused, and
 * one if there is no room for all processes, or no time. */
#ifndef SYMBOLIZER_WORKER_RUNTIME_STATS_H
#define SYMBOLIZER_WORKER_RUNTIME_STATS_H

#include <stdbool.h>

#include "bpf/shared.h"
#include "ipc/messages.h"

struct runtime_stats {
	struct msg_runtime by_runtime[RUNTIME_ID_COUNT]; /* all but `attached` */
	unsigned int lines;				 /* logged so far */
	bool no_room_logged;
	uint64_t no_time_logged_ns; /* 0: never */
};

/* Counts a refusal and logs `line`, unless it is NULL or too many were logged. It may contain any
 * bytes. */
void runtime_stats_refuse(struct runtime_stats *stats, unsigned int runtime, const char *line);

/* Counts a frame that was named or could not be named. `runtime` may be any number. */
void runtime_stats_frame(struct runtime_stats *stats, unsigned int runtime, bool named);

/* Counts a process that finds no room in the kernel side's table, or is taken out of it. */
void runtime_stats_no_room(struct runtime_stats *stats, unsigned int runtime);

/* Logs that there is no time to read the memory of a process, unless that was logged a moment
 * ago. */
void runtime_stats_no_time(struct runtime_stats *stats, uint32_t tgid, uint64_t now_ns);

#endif
