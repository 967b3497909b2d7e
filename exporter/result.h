/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a recording: its outputs, and the lists for the CLI's summary. */
#ifndef EXPORTER_RESULT_H
#define EXPORTER_RESULT_H

struct exporter;

/* Writes the profile to each output and closes it. How many outputs were written, and the first
 * error, are kept in `exporter` for its status. */
void result_write_outputs(struct exporter *exporter);

/* Sends the processes and then the functions with the most samples to the CLI. */
void result_send_summary(struct exporter *exporter);

#endif
