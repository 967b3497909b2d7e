/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROGRAM_PATH_H
#define CLI_PROGRAM_PATH_H

#include <stddef.h>

/* Writes the path of the program `name` in the directory of this program, or, if it is there and
 * not here, in ../libexec/bulkhead, where packages put what users do not call. */
void program_path(const char *name, char *path, size_t size);

#endif
