/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker says of language runtimes (struct msg_runtime), for people, scripts and
 * Prometheus. Figures are by enum runtime_id. */
#ifndef CLI_RUNTIME_PRINT_H
#define CLI_RUNTIME_PRINT_H

#include <stdio.h>

#include "ipc/messages.h"

/* At the end of a recording: a line for each runtime of which something was refused or has no name.
 */
void runtime_print_faults(const struct msg_runtime figures[RUNTIME_ID_COUNT], FILE *out);

/* Of an agent: a line for each runtime that was met, the first behind "runtimes". */
void runtime_print_status(const struct msg_runtime figures[RUNTIME_ID_COUNT], FILE *out);

/* The member "runtimes" of a JSON object, and a comma. */
void runtime_print_json(const struct msg_runtime figures[RUNTIME_ID_COUNT], FILE *out);

void runtime_print_metrics(const struct msg_runtime figures[RUNTIME_ID_COUNT], FILE *out);

#endif
