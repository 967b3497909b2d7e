/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

/* Executes `bulkhead status`. Returns an exit status. */
int status_main(int argc, char **argv);

#endif
