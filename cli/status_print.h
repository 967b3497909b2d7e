/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the agent's report as text, as JSON, or as metrics. */
#ifndef CLI_STATUS_PRINT_H
#define CLI_STATUS_PRINT_H

#include <stdio.h>

#include "control/agent_report.h"

void status_print_text(const struct agent_report *report, FILE *out);
void status_print_json(const struct agent_report *report, FILE *out);
/* Prints metrics in the text format of Prometheus, version 0.0.4. */
void status_print_metrics(const struct agent_report *report, FILE *out);

#endif
