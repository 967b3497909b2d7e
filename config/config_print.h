/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are generated from the table of options: --help, --sample and --dump. */
#ifndef CONFIG_CONFIG_PRINT_H
#define CONFIG_CONFIG_PRINT_H

#include <stdio.h>

#include "config/config_state.h"

void config_print_help(FILE *out);

/* Prints a configuration file with all options, their defaults and their bounds. */
void config_print_sample(FILE *out);

/* Prints each value and where it came from; of a secret, only (set) or (not set). */
void config_print_dump(const struct config_state *state, FILE *out);

#endif
