/* SPDX-License-Identifier: Apache-2.0 */
/* What `bulkhead record` prints while it records and at its end, and the statistics file. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/debug_hint.h"
#include "cli/options.h"
#include "control/roles.h"

enum {
	TOP_PROCESSES_MAX = 16,
	TOP_FUNCTIONS_MAX = 16
};

struct recording_stats {
	struct msg_status status[ROLE_COUNT]; /* the last of each role */
	struct msg_top_process top_processes[TOP_PROCESSES_MAX];
	unsigned int top_process_count;
	struct msg_top_function top_functions[TOP_FUNCTIONS_MAX];
	unsigned int top_function_count;
	struct msg_unnamed_module unnamed_modules[DEBUG_HINTS_MAX];
	unsigned int unnamed_module_count;
	uint64_t duration_ns; /* of the sampling */
};

/* Fills `losses` with the lost samples by reason. Samples that were taken and are neither exported
 * nor reported as lost are LOSS_ROLE_ENDED. */
void summary_losses(const struct recording_stats *stats, struct msg_losses *losses);

/* Prints one line that replaces the one before it; for a terminal. */
void summary_print_progress(const struct recording_stats *stats);
void summary_clear_progress(void);

/* Prints the summary of a recording to stderr. */
void summary_print(const struct record_options *options, const struct recording_stats *stats);

/* Writes the statistics as one JSON object (docs/statistics.md) and closes `fd`. Returns 0 or a
 * negative errno. */
int summary_write_stats(int fd, const struct recording_stats *stats, const struct roles *roles);

#endif
