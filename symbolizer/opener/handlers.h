/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that the opener receives. */
#ifndef SYMBOLIZER_OPENER_HANDLERS_H
#define SYMBOLIZER_OPENER_HANDLERS_H

struct opener;

/* Prepares the dispatch of messages to their handlers. */
void opener_set_handlers(struct opener *opener);

/* Starts the helpers that open what is asked for, and the tick that looks after them. Returns 0 or
 * a negative errno. */
int opener_start_lanes(struct opener *opener);

#endif
