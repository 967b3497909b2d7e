/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

/* `bulkhead record`: returns an exit status. */
int record_main(int argc, char **argv);

/* `bulkhead report`: likewise. */
int report_main(int argc, char **argv);

#endif
