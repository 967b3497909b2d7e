/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that the opener receives. */
#ifndef SYMBOLIZER_OPENER_HANDLERS_H
#define SYMBOLIZER_OPENER_HANDLERS_H

struct opener;

/* Prepares the dispatch of messages to their handlers. */
void opener_set_handlers(struct opener *opener);

#endif
