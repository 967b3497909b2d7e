/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTROL_SIGNALS_H
#define CONTROL_SIGNALS_H

/* Blocks SIGCHLD and the signals that ask a process to end, so that they are read from the returned
 * descriptor (signalfd(2), non-blocking). Ignores SIGPIPE. Returns a negative errno on failure. */
int signals_open(void);

#endif
