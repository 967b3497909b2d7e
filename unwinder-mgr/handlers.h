/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that the manager receives. */
#ifndef UNWINDER_MGR_HANDLERS_H
#define UNWINDER_MGR_HANDLERS_H

struct manager;

/* Prepares the dispatch of messages to their handlers. */
void manager_set_handlers(struct manager *manager);

#endif
