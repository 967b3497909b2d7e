/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's answer in three forms. */
#ifndef CLI_STATUS_PRINT_H
#define CLI_STATUS_PRINT_H

#include <stdio.h>

#include "cli/agent_report.h"

void status_print_text(const struct agent_report *report, FILE *out);
void status_print_json(const struct agent_report *report, FILE *out);
/* Prometheus' text format, version 0.0.4. */
void status_print_metrics(const struct agent_report *report, FILE *out);

#endif
