/* SPDX-License-Identifier: Apache-2.0 */
/* What a person, or a script, is told of a recording. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"
#include "cli/roles.h"

enum {
	HOT_FUNCTIONS_MAX = 16
};

struct recording_figures {
	struct msg_status status[ROLE_COUNT]; /* the last of each role */
	struct msg_hot_function hot[HOT_FUNCTIONS_MAX];
	unsigned int hot_count;
	uint64_t duration_ns;
};

/* Samples lost, by reason; `taken` less what was exported and less all known losses is ROLE_ENDED.
 */
void summary_losses(const struct recording_figures *figures, struct msg_losses *losses);
uint64_t summary_total(const struct msg_losses *losses);

/* One line that overwrites itself, on a terminal. */
void summary_progress(const struct recording_figures *figures);
void summary_progress_end(void);

void summary_print(const struct record_options *options, const struct recording_figures *figures);

/* The statistics as one JSON object; see the README. 0 or a negative errno. */
int summary_write_stats(int fd, const struct recording_figures *figures, const struct roles *roles);

#endif
