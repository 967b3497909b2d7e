/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

/* Executes `bulkhead run`. Returns an exit status. */
int run_main(int argc, char **argv);

#endif
