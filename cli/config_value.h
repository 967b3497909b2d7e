/* SPDX-License-Identifier: Apache-2.0 */
/* One option's value: from text into struct config, and back. */
#ifndef CLI_CONFIG_VALUE_H
#define CLI_CONFIG_VALUE_H

#include <stdint.h>
#include <stdio.h>

#include "cli/config.h"
#include "cli/config_table.h"

enum {
	CONFIG_REASON_BYTES = 256
};

/* NULL; or what is wrong with it, without the text itself, written to `reason`: `config` is
 * untouched. */
const char *config_value_set(const struct config_option *option, const char *text,
			     struct config *config, char reason[static CONFIG_REASON_BYTES]);

/* As it would be written in a file; a secret only as (set) or (not set). */
void config_value_print(const struct config_option *option, const struct config *config, FILE *out);

/* "1 ... 997", "1s ... 5m, or 0"; nothing for an option without bounds. */
void config_value_print_bounds(const struct config_option *option, FILE *out);

/* "TIME", "none|gzip": what stands for a value in --help. */
const char *config_value_placeholder(const struct config_option *option);

/* The three kinds of member. */
uint64_t *config_value_number(const struct config_option *option, struct config *config);
bool *config_value_boolean(const struct config_option *option, struct config *config);
char *config_value_text(const struct config_option *option, struct config *config);

#endif
