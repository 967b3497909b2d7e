/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of language runtimes (common/runtimes.def) as users write them: "all", "none", or names
 * separated by commas. A set has the bits 1 << enum runtime_id. */
#ifndef CONFIG_RUNTIME_SET_H
#define CONFIG_RUNTIME_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ipc/messages.h"

/* Parses `text`; case does not matter. Returns false and leaves `set` unchanged if a name is
 * unknown or missing. */
bool runtime_set_parse(const char *text, uint32_t *set);

/* Prints the set as users write it: "all", "none" or "cpython,hotspot". */
void runtime_set_print(uint32_t set, FILE *out);

/* Returns all names: "cpython, hotspot". */
const char *runtime_set_names(void);

#endif
