/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_UNPIN_H
#define CLI_UNPIN_H

/* `bulkhead unpin`: removes what a killed loader has left pinned. Returns the exit status. */
int unpin_main(int argc, char **argv);

#endif
