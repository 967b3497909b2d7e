/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of language runtimes (common/runtimes.def) as users write them: "all", "none", or names
 * separated by commas. "all" may be one of them, since it does not include the extras. A set has
 * the bits 1 << enum runtime_id and 1 << enum runtime_extra. */
#ifndef CONFIG_RUNTIME_SET_H
#define CONFIG_RUNTIME_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ipc/messages.h"

/* Parses `text`; case does not matter. Returns false and leaves `set` unchanged if a name is
 * unknown or missing. */
bool runtime_set_parse(const char *text, uint32_t *set);

/* Prints the set as users write it: "all", "none", "cpython,hotspot" or
 * "all,goroutine_ids". */
void runtime_set_print(uint32_t set, FILE *out);

/* Returns all names: "cpython, hotspot". */
const char *runtime_set_names(void);

#endif
