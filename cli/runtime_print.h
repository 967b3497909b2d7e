/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the statistics of language runtimes (struct msg_runtime) as text, JSON and metrics. Arrays
 * are indexed by enum runtime_id. */
#ifndef CLI_RUNTIME_PRINT_H
#define CLI_RUNTIME_PRINT_H

#include <stdio.h>

#include "ipc/messages.h"

/* Prints one line for each runtime with refusals or with frames without a name, for the summary of
 * a recording. */
void runtime_print_faults(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out);

/* Prints one line for each runtime that was found, for `bulkhead status`. The first line starts
 * with "runtimes". */
void runtime_print_status(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out);

/* Prints the member "runtimes" of a JSON object, followed by a comma. */
void runtime_print_json(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out);

/* Prints metrics in the text format of Prometheus. */
void runtime_print_metrics(const struct msg_runtime stats[RUNTIME_ID_COUNT], FILE *out);

#endif
