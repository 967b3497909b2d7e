/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of language runtimes (common/runtimes.def) as users write them: "all", "none" or names by
 * commas. */
#ifndef CLI_RUNTIME_SET_H
#define CLI_RUNTIME_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ipc/messages.h"

/* false, and `*set` untouched, if a name is unknown or there is none. Case does not matter. */
bool runtime_set_parse(const char *text, uint32_t *set);

/* As it would be written: "all", "none", "cpython,hotspot". */
void runtime_set_print(uint32_t set, FILE *out);

/* All names: "cpython, hotspot". */
const char *runtime_set_names(void);

#endif
