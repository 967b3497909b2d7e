/* SPDX-License-Identifier: Apache-2.0 */
/* The commands `bulkhead record` and `bulkhead report`. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

/* Execute the commands. Both return an exit status. `argv[0]` is the name of the command. */
int record_main(int argc, char **argv);
int report_main(int argc, char **argv);

#endif
