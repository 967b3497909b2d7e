/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that the worker receives. */
#ifndef SYMBOLIZER_WORKER_HANDLERS_H
#define SYMBOLIZER_WORKER_HANDLERS_H

struct worker;

/* Prepares the dispatch of messages to their handlers. */
void worker_set_handlers(struct worker *worker);

#endif
