/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of language runtimes for the CLI, and a log line for each runtime that was refused. */
#ifndef SYMBOLIZER_WORKER_RUNTIME_STATS_H
#define SYMBOLIZER_WORKER_RUNTIME_STATS_H

#include <stdbool.h>

#include "bpf/shared.h"
#include "ipc/messages.h"

struct runtime_stats {
	struct msg_runtime by_runtime[BH_RUNTIME_COUNT]; /* all but `attached` */
	unsigned int lines;				 /* logged so far */
};

/* Counts a refusal and logs `line`, unless it is NULL or too many were logged. It may contain any
 * bytes. */
void runtime_stats_refuse(struct runtime_stats *stats, unsigned int runtime, const char *line);

/* Counts a frame that was named or could not be named. `runtime` may be any number. */
void runtime_stats_frame(struct runtime_stats *stats, unsigned int runtime, bool named);

#endif
