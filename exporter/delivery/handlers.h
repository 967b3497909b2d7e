/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that an agent's exporter receives, and its other events. */
#ifndef EXPORTER_DELIVERY_HANDLERS_H
#define EXPORTER_DELIVERY_HANDLERS_H

struct otlp_exporter;

/* Prepares the dispatch of messages to their handlers. */
void agent_set_handlers(struct otlp_exporter *exporter);

/* Starts the ticks that update the statistics and commit intervals when their time is over. */
void agent_start_ticks(struct otlp_exporter *exporter);

#endif
