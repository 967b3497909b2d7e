/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that a recording's exporter receives, and its ticks. */
#ifndef EXPORTER_HANDLERS_H
#define EXPORTER_HANDLERS_H

struct exporter;

/* Prepares the dispatch of messages to their handlers. */
void exporter_set_handlers(struct exporter *exporter);

/* Starts sending the status to the CLI once per second. */
void exporter_start_ticks(struct exporter *exporter);

#endif
