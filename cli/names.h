/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the reasons for lost samples, as they are printed, and counts by name in JSON. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include <stdint.h>
#include <stdio.h>

#include "ipc/messages.h"

extern const char *const loss_names[LOSS_COUNT];

/* Prints the member `key` of a JSON object, followed by a comma: an object with the counts from
 * `first` to `count` - 1 by name. */
void names_print_json(FILE *out, const char *key, const char *const *names, const uint64_t *counts,
		      int first, int count);

#endif
