/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that the loader receives, and its other events. */
#ifndef LOADER_HANDLERS_H
#define LOADER_HANDLERS_H

struct loader;

/* Prepares the dispatch of messages to their handlers. */
void loader_set_handlers(struct loader *loader);

/* Sends the status to the CLI, and from now on follows the CPUs and sends it once per second. */
void loader_start_ticks(struct loader *loader);

#endif
