/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

/* Block the signals that ask a command to end, and SIGCHLD, and read them from a descriptor instead
 * (signalfd(2), not blocking); ignore SIGPIPE. The descriptor, or a negative errno. */
int signals_open(void);

#endif
