/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of language runtimes: figures for the CLI, and a line for what was refused. */
#ifndef SYMBOLIZER_WORKER_RUNTIME_STATS_H
#define SYMBOLIZER_WORKER_RUNTIME_STATS_H

#include <stdbool.h>

#include "bpf/shared.h"
#include "ipc/messages.h"

struct runtime_stats {
	struct msg_runtime by_runtime[BH_RUNTIME_COUNT]; /* but `attached` */
	unsigned int lines;				 /* logged */
};

/* One more refusal; with a line to be logged (it may hold anything), unless NULL or too many were.
 */
void runtime_stats_refuse(struct runtime_stats *figures, unsigned int runtime, const char *line);

/* One more frame was looked up. `runtime` may be any number. */
void runtime_stats_frame(struct runtime_stats *figures, unsigned int runtime, bool named);

#endif
